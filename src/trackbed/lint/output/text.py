"""Problems as text: grouped by file, one line each, with each fix once a file."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from trackbed.lint.finding import LintProblem

Paint = Callable[[str, str], str]
"""(text, severity or `bold`) -> text with the escape sequences of a terminal."""


_SHOWN = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
"""Control characters, which a terminal would interpret, and their escapes."""


def skip_paint(text: str, _style: str) -> str:
    """Return the text unchanged."""
    return text


def render_lines(problems: Iterable[LintProblem], paint: Paint = skip_paint) -> Iterator[str]:
    """Yield the lines to print."""
    problems = list(problems)
    for file, group in groupby(problems, key=lambda problem: problem.file):
        yield paint(file, "bold")
        explained: set[str] = set()
        for problem in group:
            badge = paint(f"{problem.severity:7}", problem.severity)
            yield f"  {problem.line}:{problem.column}  {badge}  {problem.message.translate(_SHOWN)}  [{problem.rule}]"
            if problem.rule not in explained:
                explained.add(problem.rule)
                yield f"      fix: {problem.fix}"
        yield ""
    yield paint(summarize(problems), "bold")


def summarize(problems: Iterable[LintProblem]) -> str:
    """Return the number of problems of each severity."""
    counts = Counter(problem.severity for problem in problems)
    parts = [f"{counts[name]} {name}{'s' if counts[name] != 1 else ''}" for name in ("error", "warning", "note")]
    return ", ".join(parts)
