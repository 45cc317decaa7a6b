"""`trackbed doctor` on an archive: checks of files and recorded programs; the network is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.doctor import host_reads
from trackbed.doctor.catalogue import judge, load_catalogue
from trackbed.doctor.checks import bios, cmdline, firmware, kubelet, runtime
from trackbed.doctor.diagnosis import Diagnosis, find_first
from trackbed.doctor.view import NodeView
from trackbed.host.state import HostState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.fabric.plan.plan import NodePlan
    from trackbed.host.machine import Machine

MODULES = (bios, cmdline, firmware, kubelet, runtime)
"""Checks that read nothing but `view.host`; all others need the network."""


def diagnose(machine: Machine, node: NodePlan) -> Diagnosis:
    """Judge every fault of the catalogue; faults that need the network are unknown."""
    state = HostState(machine, (), (), (), (), ())
    view = NodeView(node, state, host=host_reads.take_snapshot(machine, node))
    findings = [finding for module in MODULES for finding in module.check(view)]
    order = {fault: number for number, fault in enumerate(load_catalogue())}
    findings += _report_unknown(node, machine.unseen_reason)
    return Diagnosis(tuple(sorted(findings, key=lambda finding: order[finding.id])), find_first(findings))


def list_skipped_steps(diagnosis: Diagnosis, evidence: str) -> tuple[str, ...]:
    """Return the steps that were not judged for this reason."""
    return tuple(dict.fromkeys(f.step for f in diagnosis.findings if f.evidence == evidence))


def drop_skipped(diagnosis: Diagnosis, evidence: str) -> Diagnosis:
    """Return the diagnosis without the findings that were not judged; they are summarized in one line."""
    return Diagnosis(tuple(f for f in diagnosis.findings if f.evidence != evidence), diagnosis.first)


def _report_unknown(node: NodePlan, reason: str) -> Iterator[Finding]:
    """Yield an unknown finding for each fault of the steps that were not checked."""
    steps = {module.__name__.rpartition(".")[2] for module in MODULES}
    for fault in load_catalogue().values():
        if fault.step not in steps:
            yield judge(fault.id, node, None, ok=None, evidence=reason)
