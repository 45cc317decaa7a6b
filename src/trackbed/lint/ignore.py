"""Comments that accept a problem: `# trackbed: ignore RULE reason`.

At the end of a line, or alone on the line above, a comment holds for that line, and for the text that a `|` on the line
begins. Before the first line of content it holds for the whole file.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from trackbed.lint.catalogue import load_rules
from trackbed.lint.finding import LintProblem
from trackbed.lint.intervals import merge_intervals

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
    targets = _find_targets(lines)
    ignores = []
    for number, line in enumerate(lines):
        match = _COMMENT.search(line)
        if match is None:
            continue
        rules = tuple(re.split(r"\s*,\s*", match["rules"])) if match["rules"] else ()
        column = line.index("#", match.start()) + 1
        first, last = (1, len(lines)) if number < head else targets[number]
        ignores.append(Ignore(rules, match["reason"].strip(), number + 1, column, first, last))
    return ignores


def _is_comment(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _count_head_lines(lines: Sequence[str]) -> int:
    """Return the number of lines before the first content; `---` is no content."""
    return next((n for n, line in enumerate(lines) if not _is_comment(line) and line.strip() != "---"), len(lines))


def _find_targets(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return the first and last line, counted from 1, for which a comment on each line would hold."""
    target = (len(lines), len(lines))
    targets = [target] * len(lines)
    outer: list[tuple[int, int]] = []
    """Indentation and index of the lines below, each less indented than those above it."""
    for number in reversed(range(len(lines))):
        line = lines[number]
        if line.strip():
            indentation = len(line) - len(line.lstrip())
            while outer and outer[-1][0] > indentation:
                outer.pop()
            end = outer[-1][1] if outer else len(lines)
            outer.append((indentation, number))
            if not _is_comment(line):
                target = number + 1, end if _BLOCK.search(line) else number + 1
        targets[number] = target
    return targets


def apply_ignores(problems: Iterable[LintProblem], files: Mapping[str, Sequence[str]]) -> tuple[LintProblem, ...]:
    """Return the problems that no comment accepts, and those of the comments themselves; `files` holds the lines."""
    groups: dict[tuple[str, str], list[LintProblem]] = defaultdict(list)
    for problem in sorted(problems, key=_get_line):
        groups[problem.file, problem.rule].append(problem)
    accepted: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    remaining: list[LintProblem] = []
    for file, lines in files.items():
        for ignore in read_ignores(lines):
            spans = {rule: _find_accepted(ignore, groups[file, rule]) for rule in ignore.rules}
            for rule, span in spans.items():
                accepted[file, rule] += span
            remaining += _check_comment(file, ignore, is_used=any(spans.values()))
    for key, group in groups.items():
        indexes = {index for first, last in merge_intervals(accepted[key]) for index in range(first, last + 1)}
        remaining += [problem for index, problem in enumerate(group) if index not in indexes]
    return tuple(sorted(remaining, key=lambda problem: problem.order))


def _get_line(problem: LintProblem) -> int:
    return problem.line


def _find_accepted(ignore: Ignore, group: Sequence[LintProblem]) -> list[tuple[int, int]]:
    """Return the first and last index of the problems, in the order of lines, that a comment accepts; empty if none."""
    start = bisect_left(group, ignore.first, key=_get_line)
    stop = bisect_right(group, ignore.last, key=_get_line)
    return [(start, stop - 1)] if ignore.reason and start < stop else []


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
