"""Safe fixes as changes of text: one place on one line each, so comments, order and quotes stay as they are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from trackbed.lint.finding import Edit, Finding


def fixed(text: str, findings: Iterable[Finding]) -> str:
    """The text of a file with every safe fix of its findings."""
    lines = text.splitlines(keepends=True)
    todo = {(one.line, one.column, one.edit) for one in findings if one.edit}
    for line, column, edit in sorted(todo, reverse=True):  # from the end, so that earlier places stay where they are
        if line <= len(lines):
            lines[line - 1] = _edited(lines[line - 1], column, edit)
    return "".join(lines)


def _edited(line: str, column: int, edit: Edit) -> str:
    at = line.find(edit.old, column - 1)
    if at < 0 or (not edit.new and at >= column + 1):
        return line  # the value is written in some other way, such as over several lines: a person mends it
    made = line[:at] + edit.new + line[at + len(edit.old) :]
    alone = not edit.new and not made.strip()
    return "" if alone else made


def diff(file: str, before: str, after: str) -> str:
    """A unified diff, empty where nothing changes."""
    made = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), file, f"{file} (fixed)"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in made)
