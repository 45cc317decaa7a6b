"""The quarantine stays small and short."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

from tests.quarantine import MOST_DAYS, MOST_TESTS, Entry, read_entries


def test_few_tests_are_in_quarantine_and_none_for_long() -> None:
    entries = read_entries()
    today = datetime.now(UTC).date()
    assert len(entries) <= MOST_TESTS
    assert [entry.id for entry in entries if (today - entry.since).days > MOST_DAYS] == []


def test_an_entry_names_test_issue_and_date(tmp_path: Path) -> None:
    path = tmp_path / "quarantine.toml"
    path.write_text('[[test]]\nid = "tests/test_a.py::test"\nissue = 29\nsince = 2026-11-24\n')
    assert read_entries(path) == [Entry("tests/test_a.py::test", 29, date(2026, 11, 24))]
