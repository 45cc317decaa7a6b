"""Comments that accept a problem: `# trackbed: ignore RULE reason`.

At the end of a line, or alone on the line above, a comment holds for that line, and for the text that a `|` on the line
begins. Before the first line of content it holds for the whole file.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from trackbed.lint.catalogue import load_rules
from trackbed.lint.finding import LintProblem

_COMMENT = re.compile(r"(?:^|\s)#\s*trackbed:\s*ignore\b\s*(?P<rules>[\w-]+(?:\s*,\s*[\w-]+)*)?[\s:-]*(?P<reason>.*)$")
_BLOCK = re.compile(r"[|>][-+0-9]*\s*(?:#.*)?$")


class Ignore(NamedTuple):
    """A comment, and the lines for which it holds."""

    rules: tuple[str, ...]
    reason: str
    line: int
    """Line of the comment, counted from 1."""
    column: int
    first: int
    last: int


def read_ignores(lines: Sequence[str]) -> list[Ignore]:
    """Return the comments of a file that accept problems."""
    if not any("trackbed:" in line for line in lines):
        return []
    head = _count_head_lines(lines)
    ignores = []
    for number, line in enumerate(lines):
        match = _COMMENT.search(line)
        if match is None:
            continue
        rules = tuple(re.split(r"\s*,\s*", match["rules"])) if match["rules"] else ()
        column = line.index("#", match.start()) + 1
        first, last = _find_range(lines, number, head)
        ignores.append(Ignore(rules, match["reason"].strip(), number + 1, column, first, last))
    return ignores


def _is_comment(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _count_head_lines(lines: Sequence[str]) -> int:
    """Return the number of lines before the first content; `---` is no content."""
    return next((n for n, line in enumerate(lines) if not _is_comment(line) and line.strip() != "---"), len(lines))


def _find_range(lines: Sequence[str], number: int, head: int) -> tuple[int, int]:
    """Return the first and last line for which the comment on line `number`, counted from 0, holds."""
    if number < head:
        return 1, len(lines)
    target = number
    while target < len(lines) - 1 and _is_comment(lines[target]):
        target += 1
    last = target
    if _BLOCK.search(lines[target]):
        indentation = len(lines[target]) - len(lines[target].lstrip())
        while last + 1 < len(lines) and (
            not lines[last + 1].strip() or len(lines[last + 1]) - len(lines[last + 1].lstrip()) > indentation
        ):
            last += 1
    return target + 1, last + 1


def apply_ignores(problems: Iterable[LintProblem], files: Mapping[str, Sequence[str]]) -> tuple[LintProblem, ...]:
    """Return the problems that no comment accepts, and those of the comments themselves; `files` holds the lines."""
    ignores = {file: read_ignores(lines) for file, lines in files.items()}
    remaining: list[LintProblem] = []
    used: set[tuple[str, int]] = set()
    for problem in problems:
        matching = [ignore for ignore in ignores.get(problem.file, ()) if _accepts(ignore, problem)]
        used.update((problem.file, ignore.line) for ignore in matching)
        if not matching:
            remaining.append(problem)
    for file, comments in ignores.items():
        for ignore in comments:
            remaining += _check_comment(file, ignore, is_used=(file, ignore.line) in used)
    return tuple(sorted(remaining, key=lambda problem: problem.order))


def _accepts(ignore: Ignore, problem: LintProblem) -> bool:
    return bool(ignore.reason) and problem.rule in ignore.rules and ignore.first <= problem.line <= ignore.last


def _check_comment(file: str, ignore: Ignore, *, is_used: bool) -> Iterator[LintProblem]:
    unknown = [rule for rule in ignore.rules if rule not in load_rules()]
    if unknown:
        yield _build_problem("ignore-incomplete", file, ignore, f"there is no rule {unknown[0]!r}")
    elif not ignore.rules or not ignore.reason:
        lacking = "a reason" if ignore.rules else "a rule and a reason"
        yield _build_problem("ignore-incomplete", file, ignore, f"the comment lacks {lacking}, so it accepts nothing")
    elif not is_used:
        message = f"nothing breaks {' or '.join(ignore.rules)} here"
        yield _build_problem("ignore-unused", file, ignore, message)


def _build_problem(rule_id: str, file: str, ignore: Ignore, message: str) -> LintProblem:
    rule = load_rules()[rule_id]
    return LintProblem(rule.id, rule.severity, file, ignore.line, ignore.column, message, rule.fix)
