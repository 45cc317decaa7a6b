"""The page of faults says what the checks are now."""

from __future__ import annotations

from pathlib import Path

from trackbed_lab.reference import page

from trackbed.doctor.catalogue import load_catalogue

WRITTEN = Path(__file__).parents[2] / "docs" / "reference" / "faults.md"


def test_the_written_page_is_the_one_that_the_checks_make() -> None:
    assert WRITTEN.read_text() == page(), "run scripts/docs"


def test_every_fault_has_a_row() -> None:
    assert [fault for fault in load_catalogue() if f"| `{fault}` |" not in page()] == []
