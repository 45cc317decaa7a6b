"""What `tests/crds/fetch.py` fetches: files by commit, and of each the CRDs alone."""

from __future__ import annotations

import re
from pathlib import Path

from tests.crds import fetch


def test_every_file_is_named_by_a_commit() -> None:
    rows = [line.split() for line in fetch.LIST.read_text().splitlines()]
    assert [row for row in rows if len(row) != 4 or not re.fullmatch("[0-9a-f]{40}", row[2])] == []


def test_a_file_is_written_to_the_folder_of_its_component(tmp_path: Path) -> None:
    for line in fetch.LIST.read_text().splitlines():
        _, repository, commit, path = line.split()
        source = tmp_path / "url" / repository / commit / path
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text("kind: Pod\n---\nkind: CustomResourceDefinition\n---\nkind: List\n")
    fetch.main(tmp_path / "crds", f"file://{tmp_path}/url")
    texts = {path.read_text() for path in (tmp_path / "crds").glob("*/*.yaml")}
    assert texts | {path.read_text() for path in (tmp_path / "crds" / "multus").iterdir()} == {
        "kind: CustomResourceDefinition\n"
    }
