"""`trackbed doctor` on an archive: what can be judged of files and programs alone, and what cannot."""

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
"""Checks that look at nothing but `view.host`; all others want the network, too."""


def diagnose(machine: Machine, node: NodePlan) -> Diagnosis:
    """Every fault of the catalogue: judged where files say enough, unknown otherwise."""
    nothing = HostState(machine, (), (), (), (), ())
    view = NodeView(node, nothing, host=host_reads.take_snapshot(machine, node))
    found = [finding for module in MODULES for finding in module.check(view)]
    place = {fault: number for number, fault in enumerate(load_catalogue())}
    found += _unjudged(node, machine.unseen_reason)
    return Diagnosis(tuple(sorted(found, key=lambda finding: place[finding.id])), find_first(found))


def steps(diagnosis: Diagnosis, evidence: str) -> tuple[str, ...]:
    """The steps that were left out for this reason."""
    return tuple(dict.fromkeys(f.step for f in diagnosis.findings if f.evidence == evidence))


def without(diagnosis: Diagnosis, evidence: str) -> Diagnosis:
    """The diagnosis without what was left out: that is told in one line."""
    return Diagnosis(tuple(f for f in diagnosis.findings if f.evidence != evidence), diagnosis.first)


def _unjudged(node: NodePlan, reason: str) -> Iterator[Finding]:
    """All faults of steps that were not looked at, once for the node."""
    seen = {module.__name__.rpartition(".")[2] for module in MODULES}
    for fault in load_catalogue().values():
        if fault.step not in seen:
            yield judge(fault.id, node, None, ok=None, evidence=reason)
