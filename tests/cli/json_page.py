"""The page of JSON output: for each command the keys of its document, and their types."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text()
TYPES: dict[str, tuple[type, ...]] = {
    "mapping": (dict,),
    "list": (list,),
    "text": (str,),
    "boolean": (bool,),
    "number": (int, float),
    "null": (type(None),),
}


def _read_sections() -> dict[str, tuple[str, str]]:
    page = re.sub(r"^## .*$", "", PAGE, flags=re.MULTILINE)
    parts = re.split(r"^### `([^`]+)`: (mapping|list)$", page, flags=re.MULTILINE)
    return {parts[at]: (parts[at + 1], parts[at + 2]) for at in range(1, len(parts), 3)}


SECTIONS = _read_sections()


def read_keys(command: str) -> dict[str, str]:
    """Return the keys of a command's document, each with its type as the page writes it; KeyError without a section."""
    text = SECTIONS[command][1]
    shared = re.search(r"^As `([^`]+)`", text, re.MULTILINE)
    rows = re.findall(r"^\| `([\w-]+)` \| ([a-z ]+) \| .+ \|$", text, re.MULTILINE)
    return (read_keys(shared[1]) if shared else {}) | dict(rows)


def check_document(command: str, document: Any) -> None:
    """Fail unless a document has the keys and the types of the page."""
    assert type(document) in TYPES[SECTIONS[command][0]]
    keys = read_keys(command)
    needed = {key for key, kind in keys.items() if "absent" not in kind}
    entries: list[dict[str, Any]] = document if isinstance(document, list) else [document]
    assert entries, f"{command}: an empty list shows no keys"
    for entry in entries:
        for key, value in entry.items():
            assert key in keys, f"{command} prints {key}, which docs/reference/json.md lacks"
            known = tuple(kind for word in keys[key].split(" or ") for kind in TYPES.get(word, ()))
            assert isinstance(value, known), f"{command}: {key} is {value!r}, the page says {keys[key]}"
    printed = {key for entry in entries for key in entry}
    assert needed <= printed, f"{command} does not print {sorted(needed - printed)}"
