"""Results of an importer, and problems that are reported once for many hosts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from trackbed.fabric.host_ranges import fold_hosts
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.model.problems import Place, Problem
from trackbed.fabric.plan.lock import render_lock
from trackbed.fabric.yaml_text import FABRIC_LAYOUT, render_mapping

NOTE = "note"
"""Severity of a problem that needs no action."""


@dataclass(frozen=True, slots=True)
class ImportResult:
    """An imported Fabric, the slots that reproduce its nodes' addresses, and the problems of the imported files."""

    fabric: Fabric
    lock: Mapping[str, int]
    """Slot of each node, in order of slot."""
    problems: tuple[Problem, ...]
    document: Mapping[str, Any]
    """The Fabric document as plain values, without defaults."""
    summary: str
    """One sentence: the size of the import, and whether the plan reproduces it."""

    @property
    def is_clean(self) -> bool:
        """Whether no problem needs attention."""
        return all(problem.severity == NOTE for problem in self.problems)

    def render_fabric(self) -> str:
        """Render the Fabric document below a comment that summarizes the import."""
        head = f"# Imported from {self.summary}.\n"
        count = sum(problem.severity in {"error", "warning"} for problem in self.problems)
        if count:
            head += f"# {count} findings were reported: look into them before this is applied.\n"
        return head + render_mapping(self.document, FABRIC_LAYOUT)

    def render_lock(self) -> str:
        """Render the lock document."""
        return render_lock(self.fabric.metadata.name, self.lock)


class HostProblem(NamedTuple):
    """A problem of one host; `merge_problems` merges equal messages of several hosts."""

    code: str
    message: str
    host: str
    place: Place | None = None
    severity: str = "warning"


def merge_problems(host_problems: Iterable[HostProblem]) -> list[Problem]:
    """Return one Problem for each message, with the place of the first host.

    The message names the hosts, except a single host with a known place.
    """
    groups: dict[tuple[str, str, str], list[HostProblem]] = {}
    for problem in host_problems:
        groups.setdefault((problem.severity, problem.code, problem.message), []).append(problem)
    return [
        Problem(code, message + _format_host_suffix(members), place=members[0].place, severity=severity)
        for (severity, code, message), members in groups.items()
    ]


def _format_host_suffix(members: list[HostProblem]) -> str:
    hosts = dict.fromkeys(member.host for member in members)
    if len(hosts) > 1:
        return f" ({len(hosts)} hosts: {fold_hosts(hosts)})"
    return "" if members[0].place else f" ({members[0].host})"


def sort_problems(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems in order: errors, warnings, notes, each by place."""
    rank = {"error": 0, "warning": 1, NOTE: 2}
    return tuple(
        sorted(
            problems,
            key=lambda problem: (
                rank[problem.severity],
                problem.place or Place("", 0, 0),
                problem.code,
                problem.message,
            ),
        )
    )
