"""`trackbed doctor` on an archive: checks of files and recorded program output; the network is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.doctor import host_reads
from trackbed.doctor.catalogue import build_finding, load_catalogue
from trackbed.doctor.checks import FILE_STEPS, run_checks
from trackbed.doctor.diagnosis import Diagnosis, select_finding_to_fix, sort_findings
from trackbed.doctor.view import NodeView
from trackbed.host.state import HostState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.fabric.plan.plan import NodePlan
    from trackbed.host.machine import Machine


def diagnose_archive(machine: Machine, node: NodePlan) -> Diagnosis:
    """Check the host of an archive for every fault of the catalogue; faults that need the network are unknown."""
    state = HostState(machine, (), (), (), (), ())
    view = NodeView(node, state, host=host_reads.take_snapshot(machine, node))
    findings = sort_findings((*run_checks(view, FILE_STEPS), *_iter_unknown_findings(node, machine.unseen_reason)))
    return Diagnosis(tuple(findings), select_finding_to_fix(findings))


def list_skipped_steps(diagnosis: Diagnosis, reason: str) -> tuple[str, ...]:
    """Return the steps that were skipped for this reason."""
    return tuple(dict.fromkeys(f.step for f in diagnosis.findings if f.evidence == reason))


def drop_skipped(diagnosis: Diagnosis, reason: str) -> Diagnosis:
    """Return the diagnosis without the findings of skipped checks, which the caller summarizes in one line."""
    return Diagnosis(tuple(f for f in diagnosis.findings if f.evidence != reason), diagnosis.first, diagnosis.left_out)


def _iter_unknown_findings(node: NodePlan, reason: str) -> Iterator[Finding]:
    """Yield an unknown finding for each fault of the skipped steps."""
    for fault in load_catalogue().values():
        if fault.step not in FILE_STEPS:
            yield build_finding(fault.id, node, None, ok=None, evidence=reason)
