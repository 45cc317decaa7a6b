"""One run: a fabric from nothing, configured, attached, proved, broken, diagnosed and healed; told phase by phase."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from trackbed import __version__
from trackbed.doctor.diagnosis import GOOD
from trackbed.doctor.finding import BROKEN
from trackbed.kernel.netlink.addresses import FAMILY
from trackbed.kernel.netlink.links import list_links
from trackbed.kernel.netlink.sockets import Socket
from trackbed.kernel.wire import matrix
from trackbed_lab.faults import find_target, heal, inject
from trackbed_lab.faults.target import UnsuitableError
from trackbed_lab.run_result import FaultResult, Phase, RailPair, RunNode, RunPort, RunRail, RunResult
from trackbed_lab.topology import count_expected_hops

if TYPE_CHECKING:
    from trackbed.doctor.diagnosis import Diagnosis
    from trackbed.doctor.finding import Finding
    from trackbed.fabric.plan.plan import AddressPlan, NodePlan
    from trackbed_lab.lab import Lab

DEFAULT_FAULT = "fabric-port-on-wrong-leaf"
MATRIX_SECONDS = 5.0
ReportPhase = Callable[[Phase], None]


@dataclass(slots=True)
class LabRun:
    """A run under way: what has been found so far."""

    lab: Lab
    report: ReportPhase
    phases: list[Phase] = field(default_factory=list)
    findings: tuple[Finding, ...] = ()
    pairs: tuple[RailPair, ...] = ()
    story: FaultResult | None = None

    def run_phase(self, name: str, work: Callable[[], tuple[str, bool]]) -> None:
        """Do one phase, time it, tell it."""
        began = time.monotonic()
        summary, ok = work()
        done = Phase(name, time.monotonic() - began, summary, ok)
        self.phases.append(done)
        self.report(done)


def run_phases(lab: Lab, fabric: bytes, fault_id: str, before: tuple[Phase, ...], tell: ReportPhase) -> RunResult:
    """Go through all phases; `before` are those that the caller has done already.

    Raises LabError, HostError, CniCallError or OSError when the lab cannot be made or its pods do not get their rails.
    """
    course = LabRun(lab, tell, list(before))
    course.run_phase("set up", lambda: _set_up(lab, fabric))
    course.run_phase("configure hosts", lambda: _apply(lab))
    course.run_phase("start agents", lambda: _agents(lab))
    course.run_phase("doctor", lambda: _sound(course))
    course.run_phase("attach pods", lambda: _attach(lab))
    course.run_phase("prove", lambda: _prove(course))
    if fault_id != "none":
        course.run_phase("break", lambda: _break(course, fault_id))
        course.run_phase("heal", lambda: _heal(course))
    course.run_phase("detach pods", lambda: _detach(lab))
    return _result(course)


def _set_up(lab: Lab, fabric: bytes) -> tuple[str, bool]:
    lab.build(fabric)
    lab.start_speaker()
    switches, cables = len(lab.topology.switches) - 2, len(lab.topology.cables)
    return f"{len(lab.plan.nodes)} nodes, {switches} leaves, 1 spine, {cables} cables", True


def _apply(lab: Lab) -> tuple[str, bool]:
    done = lab.apply()
    changes, files = sum(len(d.changes) for d in done), sum(len(d.files) for d in done)
    left = sum(len(d.left.changes) for d in done)
    return f"{changes} settings made, {files} files written, {left} differences left", left == 0


def _agents(lab: Lab) -> tuple[str, bool]:
    lab.start_agents()
    return f"{len(lab.plan.nodes)} agents serve", True


def _sound(course: LabRun) -> tuple[str, bool]:
    diagnosis = course.lab.diagnose()
    course.findings = diagnosis.findings
    return _told(diagnosis), diagnosis.status == GOOD


def _told(diagnosis: Diagnosis) -> str:
    passed = sum(finding.verdict == "pass" for finding in diagnosis.findings)
    first = f", first {diagnosis.first.id}" if diagnosis.first else ""
    return f"{passed} of {len(diagnosis.findings)} checks passed{first}"


def _attach(lab: Lab) -> tuple[str, bool]:
    names = lab.add_pods()
    return f"{len(names)} pods, {len(lab.plan.common.rails)} rails each, mode {lab.plan.common.pod_mode}", True


def _detach(lab: Lab) -> tuple[str, bool]:
    lab.drop_pods()
    left = [a for node in lab.plan.nodes for a in lab.list_attachments(node.name)]
    return f"{len(left)} attachments left", not left


def _prove(course: LabRun) -> tuple[str, bool]:
    course.pairs = prove(course.lab)
    right = sum(pair.as_planned for pair in course.pairs)
    return f"{right} of {len(course.pairs)} rail pairs as planned", right == len(course.pairs) and right > 0


def _break(course: LabRun, fault_id: str) -> tuple[str, bool]:
    try:
        place = find_target(course.lab)
        inject(place, fault_id)
    except UnsuitableError as error:
        return f"{fault_id} left out: {error}", True
    diagnosis = course.lab.diagnose()
    others = tuple(f for f in diagnosis.findings if f.verdict != "pass")
    course.story = FaultResult(
        fault_id, place.node.name, place.port.rail, diagnosis.first, healed=False, findings=others
    )
    named = diagnosis.first.id if diagnosis.first else "nothing"
    where = f"{place.node.name} rail {place.port.rail}"
    return f"{fault_id} at {where}; doctor names {named}", named == fault_id


def _heal(course: LabRun) -> tuple[str, bool]:
    if course.story is None:
        return "nothing to heal", True
    heal(find_target(course.lab, course.story.node, course.story.rail), course.story.id)
    diagnosis = course.lab.diagnose()
    healed = not any(finding.verdict in BROKEN for finding in diagnosis.findings)
    story = course.story
    course.story = FaultResult(story.id, story.node, story.rail, story.named, healed, story.findings)
    return _told(diagnosis), healed


def prove(lab: Lab) -> tuple[RailPair, ...]:
    """Send from every rail of every pod to every rail of every pod, and hold what arrives against the plan."""
    ends = {end.label: end for node in lab.plan.nodes for end in _endpoints(lab, node)}
    reached = matrix.measure(list(ends.values()), MATRIX_SECONDS)
    nodes = {node.name: node for node in lab.plan.nodes}
    return tuple(_pair(lab, nodes, ends, reach) for reach in reached)


def _endpoints(lab: Lab, node: NodePlan) -> list[matrix.Endpoint]:
    found = []
    for pod in lab.list_pods(node.name):
        with Socket(netns=lab.locate_netns(pod)) as sock:
            indexes = {link.name: link.index for link in list_links(sock)}
        for rail, name, own in lab.list_pod_rails(node.name, pod):
            label = f"{node.name} {rail}"
            found.append(matrix.Endpoint(label, lab.locate_netns(pod), indexes[name], own.address, FAMILY[own.version]))
    return found


def _pair(lab: Lab, nodes: dict[str, NodePlan], ends: dict[str, matrix.Endpoint], reach: matrix.PairResult) -> RailPair:
    (one, rail), (other, peer_rail) = (_split(label) for label in (reach.source, reach.target))
    same_node = one == other
    arrived = same_node or reach.arrived_ifindex == ends[reach.target].ifindex
    return RailPair(
        one,
        rail,
        other,
        peer_rail,
        expected=rail == peer_rail or same_node or lab.plan.common.cross_rail == "routed",
        answered=reach.answered,
        source_ok=reach.seen_source == ends[reach.source].address and arrived,
        expected_hops=count_expected_hops(lab.plan, (nodes[one], rail), (nodes[other], peer_rail)),
        hops=reach.hops,
    )


def _split(label: str) -> tuple[str, int]:
    name, _, rail = label.rpartition(" ")
    return name, int(rail)


def _result(course: LabRun) -> RunResult:
    plan = course.lab.plan
    return RunResult(
        fabric=plan.common.fabric,
        scheme=plan.common.scheme,
        version=__version__,
        kernel=platform.release().partition("-")[0],
        cores=os.cpu_count() or 1,
        finished_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        mtu_bytes=plan.common.mtu_bytes,
        cross_rail=plan.common.cross_rail,
        pod_mode=plan.common.pod_mode,
        nodes=tuple(RunNode(node.name, node.unit, f"pod-{node.name}") for node in plan.nodes),
        rails=tuple(RunRail(r.rail, r.netdev, ", ".join(str(c) for c in (r.v4, r.v6) if c)) for r in plan.common.rails),
        ports=tuple(
            RunPort(node.name, port.rail, port.leaf, ", ".join(map(_shown, port.addresses)))
            for node in plan.nodes
            for port in node.ports
        ),
        phases=tuple(course.phases),
        pairs=course.pairs,
        fault=course.story,
        findings=course.findings,
    )


def _shown(own: AddressPlan) -> str:
    return str(own)
