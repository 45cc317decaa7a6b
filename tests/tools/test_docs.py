"""Every generated file has the text that its generator gives now."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.stacks.sites import alike, planned
from tools.docs import GOLDEN, STACK_PAGES, iter_files
from tools.pages.faults_page import render_faults_page
from trackbed.cluster.stacks import MODULES, load_stack
from trackbed.doctor.catalogue import load_catalogue

FILES = dict(iter_files())


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_generated_file_is_the_output_of_its_generator(check_golden: Callable[[Path, str], None], path: Path) -> None:
    check_golden(path, FILES[path])


@pytest.mark.parametrize("folder", [GOLDEN, STACK_PAGES], ids=["golden", "pages"])
def test_a_generated_folder_holds_nothing_else(folder: Path) -> None:
    assert {path for path in FILES if path.parent == folder} == set(folder.iterdir())


def test_every_stack_has_a_site_that_it_can_carry() -> None:
    assert [name for name in MODULES if list(load_stack(name).refusals(planned(name, alike(2, 2), 2)))] == []


def test_every_fault_has_a_row() -> None:
    assert [fault for fault in load_catalogue() if f"| `{fault}` |" not in render_faults_page()] == []
