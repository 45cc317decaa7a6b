"""Files of shell assignments, as in /etc/sysconfig/network-scripts."""

import re
import shlex
from collections.abc import Iterator

from trackbed.fabric.importers.source import MAX_FILE_BYTES, NamedFile
from trackbed.fabric.model.problems import Place, Problem
from trackbed.fabric.model.source import Scalar, decode_text

_ASSIGNMENT = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=")

_MAX_VALUE = 4096
"""Limit of a value: shlex takes the square of the length of a word."""

Variables = dict[str, Scalar]


def read_variables(file: NamedFile, problems: list[Problem]) -> Variables:
    """Return the variables of a file, of which the last assignment counts; add a problem for each other line.

    Raises SpecError if the file is too large or not UTF-8.
    """
    variables: Variables = {}
    for number, line in iter_lines(file):
        assignment = _ASSIGNMENT.match(line)
        value = _parse_value(line[assignment.end() :]) if assignment else None
        if assignment is None or value is None:
            message = "this line is no assignment NAME=VALUE; it is ignored"
            problems.append(Problem("bad-line", message, place=Place(file[0], number, 1), severity="warning"))
            continue
        variables[assignment[1]] = Scalar(value, Place(file[0], number, assignment.end() + 1))
    return variables


def iter_lines(file: NamedFile) -> Iterator[tuple[int, str]]:
    """Yield (number, text) of the lines that are not empty and no comments."""
    for number, line in enumerate(decode_text(file[1], file[0], MAX_FILE_BYTES).split("\n"), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line


def _parse_value(text: str) -> str | None:
    """Return the value of an assignment; None if it is too long, unfinished, or not followed by a comment only."""
    if len(text) > _MAX_VALUE:
        return None
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        return None
    return None if len(words) > 1 else "".join(words)
