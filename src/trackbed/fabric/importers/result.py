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
"""Severity of a problem that only explains; no action is needed."""


@dataclass(frozen=True, slots=True)
class ImportResult:
    """A Fabric with the slots that give its nodes their addresses, and the problems of the imported files."""

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
        return all(finding.severity == NOTE for finding in self.problems)

    def render_fabric(self) -> str:
        """Render the Fabric document, headed by what was imported."""
        head = f"# Imported from {self.summary}.\n"
        findings = sum(finding.severity in {"error", "warning"} for finding in self.problems)
        if findings:
            head += f"# {findings} findings were reported: look into them before this is applied.\n"
        return head + render_mapping(self.document, FABRIC_LAYOUT)

    def render_lock(self) -> str:
        """Render the lock document."""
        return render_lock(self.fabric.metadata.name, self.lock)


class HostProblem(NamedTuple):
    """A problem of one host; equal messages about several hosts become one Problem."""

    code: str
    message: str
    host: str
    place: Place | None = None
    severity: str = "warning"


def merge_problems(host_problems: Iterable[HostProblem]) -> list[Problem]:
    """Return one Problem for each message, with the place of the first host.

    The hosts are named unless there is one, whose place is known.
    """
    groups: dict[tuple[str, str, str], list[HostProblem]] = {}
    for remark in host_problems:
        groups.setdefault((remark.severity, remark.code, remark.message), []).append(remark)
    return [
        Problem(code, message + _name_hosts(members), place=members[0].place, severity=severity)
        for (severity, code, message), members in groups.items()
    ]


def _name_hosts(members: list[HostProblem]) -> str:
    hosts = dict.fromkeys(remark.host for remark in members)
    if len(hosts) > 1:
        return f" ({len(hosts)} hosts: {fold_hosts(hosts)})"
    return "" if members[0].place else f" ({members[0].host})"


def format_count(count: int, noun: str) -> str:
    """Return a number with its noun: 1 host, 2 hosts."""
    return f"{count} {noun}{'s' if count != 1 else ''}"
