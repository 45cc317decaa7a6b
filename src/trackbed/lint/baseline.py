"""A baseline: the problems that a site had when it began to lint, which are not reported again.

An entry names file, rule, object and message, but no line, so that edits elsewhere in a file do not matter.
"""

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from trackbed.fabric.model.problems import Place, Problem, SpecError
from trackbed.lint.finding import LintProblem


class BaselineEntry(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Equal problems of one object."""

    file: str
    """Path relative to the folder of the baseline."""
    rule: str
    object: str = ""
    message: str = ""
    count: int = 1


class Baseline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a baseline file."""

    version: int
    problems: tuple[BaselineEntry, ...]


class BaselineComparison(msgspec.Struct, frozen=True):
    """The problems that are not in a baseline, and how many of its problems are gone."""

    problems: tuple[LintProblem, ...]
    fixed: int


def read_baseline(path: Path) -> Baseline:
    """Read a baseline file. Raises SpecError if it is none, OSError if it cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Baseline)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = f"this is no baseline: {error}; write it anew with --update-baseline"
        raise SpecError([Problem("bad-baseline", message, place=Place(str(path), 1, 1))]) from error


def render_baseline(problems: Iterable[LintProblem], folder: Path) -> bytes:
    """Return the content of a baseline file with the problems; `folder` is the one that holds the file."""
    counts = Counter(_build_key(problem, folder) for problem in problems if problem.severity != "note")
    entries = tuple(BaselineEntry(*key, count) for key, count in sorted(counts.items()))
    return msgspec.json.format(msgspec.json.encode(Baseline(1, entries)), indent=1) + b"\n"


def compare_with_baseline(problems: Iterable[LintProblem], baseline: Baseline, folder: Path) -> BaselineComparison:
    """Return the problems that `baseline` does not have; of equal ones, those beyond its count."""
    known = Counter({(entry.file, entry.rule, entry.object, entry.message): entry.count for entry in baseline.problems})
    remaining = []
    for problem in problems:
        key = _build_key(problem, folder)
        if known[key] > 0:
            known[key] -= 1
        else:
            remaining.append(problem)
    return BaselineComparison(tuple(remaining), sum(known.values()))


def _build_key(problem: LintProblem, folder: Path) -> tuple[str, str, str, str]:
    file = problem.file if problem.file.startswith("<") else Path(os.path.relpath(problem.file, folder)).as_posix()
    return file, problem.rule, problem.object, problem.message
