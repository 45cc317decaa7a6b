"""Every stack's objects are those that were reviewed, and the reference shows them; `scripts/docs` writes both anew."""

from __future__ import annotations

import pytest

from tests.cluster.stacks.pages import GOLDEN, PAGES, golden, pages, rendered
from tests.cluster.stacks.sites import SITES, alike, planned
from trackbed.cluster.stacks import MODULES, stack


@pytest.mark.parametrize("name", MODULES)
def test_a_stack_renders_what_was_reviewed(name: str) -> None:
    assert list(stack(name).refusals(planned(name, alike(2, 2), 2))) == []
    assert rendered(name) == golden(name).read_text(), "read the difference, then run scripts/docs"


def test_every_stack_has_its_golden_file_and_its_site() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(MODULES) == set(SITES)


def test_the_reference_pages_show_the_golden_files() -> None:
    assert {path.name: path.read_text() for path in PAGES.iterdir()} == pages()
