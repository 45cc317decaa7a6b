"""What an importer answers with, and how it speaks of many hosts at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from trackbed.fabric.model.problems import Place, Problem
from trackbed.fabric.plan.lock import render_lock
from trackbed.fabric.yaml_text import FABRIC_LAYOUT, render_mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trackbed.fabric.model.fabric import Fabric

NOTE = "note"
"""Severity of a finding that only explains; nobody needs to do anything about it."""


@dataclass(frozen=True, slots=True)
class ImportResult:
    """A Fabric with the slots that give its nodes their addresses, and what there is to say about the files."""

    fabric: Fabric
    lock: Mapping[str, int]
    """Slot of each node, in order of slot."""
    problems: tuple[Problem, ...]
    document: Mapping[str, Any]
    """The Fabric as it is written: plain values, defaults left out."""
    summary: str
    """One sentence: how much there is, and whether the plan gives it back."""

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing to look into."""
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
    """One thing to say about one host; the same `message` about several hosts becomes one finding."""

    code: str
    message: str
    host: str
    place: Place | None = None
    severity: str = "warning"


def merge_problems(host_problems: Iterable[HostProblem]) -> list[Problem]:
    """One finding for each message, with the place of the first host; names the hosts unless one place says it."""
    groups: dict[tuple[str, str, str], list[HostProblem]] = {}
    for remark in host_problems:
        groups.setdefault((remark.severity, remark.code, remark.message), []).append(remark)
    return [
        Problem(code, message + _hosts(same), place=same[0].place, severity=severity)
        for (severity, code, message), same in groups.items()
    ]


def _hosts(same: list[HostProblem]) -> str:
    hosts = dict.fromkeys(remark.host for remark in same)
    if len(hosts) > 1:
        return f" ({len(hosts)} hosts: {fold_hosts(hosts)})"
    return "" if same[0].place else f" ({same[0].host})"


def format_count(count: int, word: str) -> str:
    """A number with its noun: 1 host, 2 hosts."""
    return f"{count} {word}{'s' if count != 1 else ''}"


def fold_hosts(hosts: Iterable[str]) -> str:
    """Host names folded: gpu-[0-63]."""
    from ClusterShell.NodeSet import NodeSet  # noqa: PLC0415 - 30 ms that --help must not pay

    return str(NodeSet.fromlist(list(hosts)))
