"""Application of safe fixes. Each edits one place in one line, so comments, order and quotes are kept."""

import difflib
from collections.abc import Iterable

from trackbed.lint.finding import Edit, LintProblem


def apply_fixes(text: str, problems: Iterable[LintProblem]) -> str:
    """Return the text of a file with every safe fix of its problems applied."""
    lines = text.splitlines(keepends=True)
    edits = {(problem.line, problem.column, problem.edit) for problem in problems if problem.edit}
    for line, column, edit in sorted(
        edits, reverse=True
    ):  # backwards, so that an edit does not move the places of the others
        if line <= len(lines):
            lines[line - 1] = _apply_edit(lines[line - 1], column, edit)
    return "".join(lines)


def _apply_edit(line: str, column: int, edit: Edit) -> str:
    start = line.find(edit.old, column - 1)
    if start < 0 or (not edit.new and start >= column + 1):
        return line  # the value has another notation, such as a folded block; the user has to edit it
    edited = line[:start] + edit.new + line[start + len(edit.old) :]
    return edited if edit.new or edited.strip() else ""


def render_diff(file: str, old_text: str, new_text: str) -> str:
    """Return the unified diff of two texts of a file; empty if they are equal."""
    lines = difflib.unified_diff(
        old_text.splitlines(keepends=True), new_text.splitlines(keepends=True), file, f"{file} (fixed)"
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
