"""Problems as text: grouped by file, one line each, with each fix once per file; equal ones of a file share a line."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from trackbed.lint.finding import LintProblem

Paint = Callable[[str, str], str]
"""Takes a text and a style (a severity or `bold`), and returns the text with terminal escape sequences."""


_SHOWN_LINES = 8
_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
"""Visible escapes for control characters, which a terminal would interpret."""


def iter_report_lines(problems: Iterable[LintProblem], paint: Paint = lambda text, _: text) -> Iterator[str]:
    """Yield the lines of the report; they have no colours without `paint`."""
    problems = list(problems)
    for file, group in groupby(problems, key=lambda problem: problem.file):
        yield paint(file.translate(_ESCAPES), "bold")
        explained: set[str] = set()
        for problem, *alike in _group_alike(group):
            badge = paint(f"{problem.severity:7}", problem.severity)
            message = problem.message.translate(_ESCAPES) + _list_lines(alike)
            yield f"  {problem.line}:{problem.column}  {badge}  {message}  [{problem.rule}]"
            if problem.rule not in explained:
                explained.add(problem.rule)
                yield f"      fix: {problem.fix.translate(_ESCAPES)}"
        yield ""
    yield paint(summarize_problems(problems), "bold")


def _group_alike(problems: Iterable[LintProblem]) -> Iterable[list[LintProblem]]:
    """Return the problems of a file in groups that differ by their place alone, in the order of the first ones."""
    groups: dict[tuple[str, ...], list[LintProblem]] = {}
    for problem in problems:
        groups.setdefault((problem.severity, problem.rule, problem.message), []).append(problem)
    return groups.values()


def _list_lines(alike: Sequence[LintProblem]) -> str:
    lines = [str(problem.line) for problem in alike]
    if not lines:
        return ""
    hidden = f" and {len(lines) - _SHOWN_LINES} more" if len(lines) > _SHOWN_LINES else ""
    return f" (also on line{'s' if len(lines) > 1 else ''} {', '.join(lines[:_SHOWN_LINES])}{hidden})"


def summarize_problems(problems: Iterable[LintProblem]) -> str:
    """Return the number of problems of each severity as text."""
    counts = Counter(problem.severity for problem in problems)
    parts = [f"{counts[name]} {name}{'s' if counts[name] != 1 else ''}" for name in ("error", "warning", "note")]
    return ", ".join(parts)
