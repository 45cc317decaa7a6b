"""Every generated file has the text that its generator gives now."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.stacks.sites import alike, planned
from tools.docs import GOLDEN, STACK_PAGES, iter_files
from tools.pages.faults_page import render_faults_page
from trackbed.cluster.stacks import MODULES, load_stack
from trackbed.doctor.catalogue import load_catalogue


@pytest.fixture(scope="module")
def generated() -> dict[Path, str]:
    return dict(iter_files())


def test_a_generated_file_is_the_output_of_its_generator(
    check_golden: Callable[[Path, str], None], generated: dict[Path, str]
) -> None:
    for path, text in generated.items():
        check_golden(path, text)


@pytest.mark.parametrize("folder", [GOLDEN, STACK_PAGES], ids=["golden", "pages"])
def test_a_generated_folder_holds_nothing_else(generated: dict[Path, str], folder: Path) -> None:
    assert {path for path in generated if path.parent == folder} == set(folder.iterdir())


def test_every_stack_has_a_site_that_it_can_carry() -> None:
    assert [name for name in MODULES if list(load_stack(name).refusals(planned(name, alike(2, 2), 2)))] == []


def test_every_fault_has_a_row() -> None:
    assert [fault for fault in load_catalogue() if f"| `{fault}` |" not in render_faults_page()] == []
