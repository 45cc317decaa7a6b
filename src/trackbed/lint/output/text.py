"""Findings for people: grouped by file, one line each, the fix below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from trackbed.lint.finding import Finding

Paint = Callable[[str, str], str]
"""(text, severity or `bold`) -> text as the terminal shows it."""


_SHOWN = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
"""Control characters, which a terminal would obey, as people can read them."""


def plain(text: str, _style: str) -> str:
    """No colour."""
    return text


def lines(findings: Iterable[Finding], paint: Paint = plain) -> Iterator[str]:
    """The lines to print."""
    found = list(findings)
    for file, group in groupby(found, key=lambda one: one.file):
        yield paint(file, "bold")
        told: set[str] = set()
        for one in group:
            badge = paint(f"{one.severity:7}", one.severity)
            yield f"  {one.line}:{one.column}  {badge}  {one.message.translate(_SHOWN)}  [{one.rule}]"
            if one.rule not in told:
                told.add(one.rule)
                yield f"      fix: {one.fix}"
        yield ""
    yield paint(summary(found), "bold")


def summary(findings: Iterable[Finding]) -> str:
    """How many of which severity."""
    counts = Counter(one.severity for one in findings)
    words = [f"{counts[name]} {name}{'s' if counts[name] != 1 else ''}" for name in ("error", "warning", "note")]
    return ", ".join(words)
