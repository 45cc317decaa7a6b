"""A run of the lab: build a fabric, configure it, attach pods, test reachability, inject a fault, diagnose, heal."""

import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from trackbed import __version__
from trackbed.doctor.diagnosis import FAULTY, GOOD, Diagnosis
from trackbed.doctor.finding import BROKEN, Finding
from trackbed.fabric.counts import format_count
from trackbed.fabric.plan.plan import NodePlan, UplinksPlan
from trackbed.kernel.netlink.addresses import FAMILY
from trackbed.kernel.netlink.links import list_links
from trackbed.kernel.netlink.sockets import Socket
from trackbed.kernel.wire import matrix
from trackbed_lab.faults import find_target, heal_fault, inject_fault
from trackbed_lab.faults.target import UnsuitableError
from trackbed_lab.lab import Lab
from trackbed_lab.run_result import FaultResult, Phase, PhaseOutcome, RailPair, RunNode, RunPort, RunRail, RunResult
from trackbed_lab.topology import count_expected_hops

DEFAULT_FAULT = "fabric-port-on-wrong-leaf"
SILENCE_SECONDS = 5.0
"""How long the test of reachability waits for pairs that do not answer, beside the time that asking them takes."""
_PAIR_SECONDS, _LIMIT_SECONDS = 0.001, 60.0
"""The test ends after 60 s and 1 ms for each pair; a pair takes 0.06 ms where two cores have nothing else to do."""
ReportPhase = Callable[[Phase], None]


@dataclass(slots=True)
class LabRun:
    """A run in progress, with its results so far."""

    lab: Lab
    report: ReportPhase
    phases: list[Phase] = field(default_factory=list)
    findings: tuple[Finding, ...] = ()
    pairs: tuple[RailPair, ...] = ()
    fault: FaultResult | None = None

    def run_phase(self, name: str, work: Callable[[], PhaseOutcome]) -> None:
        """Run, time and report one phase."""
        start = time.monotonic()
        summary, ok = work()
        phase = Phase(name, time.monotonic() - start, summary, ok)
        self.phases.append(phase)
        self.report(phase)


def run_phases(lab: Lab, fabric: bytes, fault_id: str, earlier: tuple[Phase, ...], report: ReportPhase) -> RunResult:
    """Run all phases; `earlier` are phases that the caller has run. `fault_id` "none" injects no fault.

    Raises:
        LabError, HostError, CniCallError, OSError: the lab cannot be built, or pods do not get their rails.
    """
    run = LabRun(lab, report, list(earlier))
    run.run_phase("set up", lambda: set_up_lab(lab, fabric))
    run.run_phase("configure hosts", lambda: configure_hosts(lab))
    run.run_phase("start agents", lambda: _start_agents(lab))
    run.run_phase("doctor", lambda: _run_doctor(run))
    run.run_phase("attach pods", lambda: _attach_pods(lab))
    run.run_phase("prove", lambda: _check_pairs(run))
    if fault_id != "none":
        run.run_phase("break", lambda: _inject_fault(run, fault_id))
        run.run_phase("heal", lambda: _heal_fault(run))
    run.run_phase("detach pods", lambda: _detach_pods(lab))
    return _build_result(run)


def set_up_lab(lab: Lab, fabric: bytes) -> PhaseOutcome:
    """Build the lab of a Fabric, and start its LLDP speaker."""
    lab.build(fabric)
    lab.start_speaker()
    switches, cables = len(lab.topology.switches) - 2, len(lab.topology.cables)
    return f"{len(lab.plan.nodes)} nodes, {switches} leaves, 1 spine, {cables} cables", True


def configure_hosts(lab: Lab) -> PhaseOutcome:
    """Configure every host with the code for real hosts."""
    results = lab.apply()
    changes, files = sum(len(result.changes) for result in results), sum(len(result.files) for result in results)
    left = sum(len(result.remaining.changes) for result in results)
    return f"{changes} settings made, {files} files written, {left} differences left", left == 0


def _start_agents(lab: Lab) -> PhaseOutcome:
    lab.start_agents()
    return f"{len(lab.plan.nodes)} agents serve", True


def _run_doctor(run: LabRun) -> PhaseOutcome:
    diagnosis = run.lab.diagnose()
    run.findings = diagnosis.findings
    return _summarize_diagnosis(diagnosis), {GOOD: True, FAULTY: False}.get(diagnosis.exit_status)


def _summarize_diagnosis(diagnosis: Diagnosis) -> str:
    passed = sum(finding.verdict == "pass" for finding in diagnosis.findings)
    first = f", first {diagnosis.first.id}" if diagnosis.first else ""
    return f"{passed} of {len(diagnosis.findings)} checks passed{first}"


def _attach_pods(lab: Lab) -> PhaseOutcome:
    names = lab.add_pods()
    return f"{len(names)} pods, {len(lab.plan.common.rails)} rails each, mode {lab.plan.common.pod_mode}", True


def _detach_pods(lab: Lab) -> PhaseOutcome:
    lab.remove_pods()
    left = [attachment for node in lab.plan.nodes for attachment in lab.list_attachments(node.name)]
    return f"{len(left)} attachments left", not left


def _check_pairs(run: LabRun) -> PhaseOutcome:
    run.pairs = measure_pairs(run.lab)
    return summarize_pairs(run.pairs)


def summarize_pairs(pairs: Sequence[RailPair]) -> PhaseOutcome:
    """Return how many pairs are as planned, and how many were not tested, with the first reason that is known."""
    planned = sum(pair.as_planned for pair in pairs)
    untested = [pair for pair in pairs if not pair.tested]
    summary = f"{planned} of {len(pairs)} rail pairs as planned"
    if untested:
        reason = next((f" ({pair.error})" for pair in untested if pair.error), "")
        summary += f", {len(untested)} not tested{reason}"
    if planned + len(untested) < len(pairs):
        return summary, False
    return summary, None if untested or not pairs else True


def _inject_fault(run: LabRun, fault_id: str) -> PhaseOutcome:
    try:
        target = find_target(run.lab)
        inject_fault(target, fault_id)
    except UnsuitableError as error:
        return f"{fault_id} left out: {error}", True
    diagnosis = run.lab.diagnose()
    node, rail = target.node.name, target.port.rail
    findings = tuple(finding for finding in diagnosis.findings if finding.verdict != "pass")
    run.fault = FaultResult(fault_id, node, rail, diagnosis.first, healed=False, findings=findings)
    named = diagnosis.first.id if diagnosis.first else "nothing"
    return f"{fault_id} at {node} rail {rail}; doctor names {named}", named == fault_id


def _heal_fault(run: LabRun) -> PhaseOutcome:
    fault = run.fault
    if fault is None:
        return "nothing to heal", True
    heal_fault(find_target(run.lab, fault.node, fault.rail), fault.id)
    diagnosis = run.lab.diagnose()
    healed = not any(finding.verdict in BROKEN for finding in diagnosis.findings)
    run.fault = msgspec.structs.replace(fault, healed=healed)
    return _summarize_diagnosis(diagnosis) + _explain_fewer_checks(run.lab), healed


def _explain_fewer_checks(lab: Lab) -> str:
    """Return why doctor checks less than before pods were attached; "" where pods leave the ports on the hosts."""
    if lab.plan.common.pod_mode != "move":
        return ""
    ports = sum(len(lab.list_pod_rails(node.name, pod)) for node in lab.plan.nodes for pod in lab.list_pods(node.name))
    return f"; {ports} ports are in pods, where the checks of the host's port do not apply"


def measure_pairs(lab: Lab) -> tuple[RailPair, ...]:
    """Send from every rail of every pod to every other, and compare what arrives with the plan."""
    ends = {end.label: end for node in lab.plan.nodes for end in _list_endpoints(lab, node)}
    limit_seconds = _LIMIT_SECONDS + _PAIR_SECONDS * len(ends) ** 2
    results = matrix.measure(list(ends.values()), SILENCE_SECONDS, limit_seconds)
    nodes = {node.name: node for node in lab.plan.nodes}
    return tuple(_build_pair(lab, nodes, ends, result) for result in results)


def _list_endpoints(lab: Lab, node: NodePlan) -> list[matrix.Endpoint]:
    """Return an endpoint for each rail of the node's pods, labelled "NODE RAIL"."""
    endpoints = []
    for pod in lab.list_pods(node.name):
        netns = lab.locate_netns(pod)
        with Socket(netns=netns) as sock:
            indexes = {link.name: link.index for link in list_links(sock)}
        for rail, name, addressing in lab.list_pod_rails(node.name, pod):
            family = FAMILY[addressing.version]
            endpoints.append(matrix.Endpoint(f"{node.name} {rail}", netns, indexes[name], addressing.address, family))
    return endpoints


def _build_pair(
    lab: Lab, nodes: dict[str, NodePlan], ends: dict[str, matrix.Endpoint], result: matrix.PairResult
) -> RailPair:
    """Add the planned values to a measurement."""
    (node, rail), (peer, peer_rail) = (_split_label(label) for label in (result.source, result.target))
    same_node = node == peer
    arrived = same_node or result.arrived_ifindex == ends[result.target].ifindex
    return RailPair(
        node,
        rail,
        peer,
        peer_rail,
        expected=rail == peer_rail or same_node or lab.plan.common.cross_rail == "routed",
        answered=result.answered,
        source_ok=result.seen_source == ends[result.source].address and arrived,
        expected_hops=count_expected_hops(lab.plan, (nodes[node], rail), (nodes[peer], peer_rail)),
        hops=result.hops,
        tested=result.tested,
        error=result.error,
    )


def _split_label(label: str) -> tuple[str, int]:
    name, _, rail = label.rpartition(" ")
    return name, int(rail)


def _build_result(run: LabRun) -> RunResult:
    plan = run.lab.plan
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
        rails=tuple(RunRail(rail.rail, rail.netdev, _format_list((rail.v4, rail.v6))) for rail in plan.common.rails),
        ports=tuple(
            RunPort(node.name, port.rail, port.leaf, _format_list(port.addresses))
            for node in plan.nodes
            for port in node.ports
        ),
        phases=tuple(run.phases),
        pairs=run.pairs,
        fault=run.fault,
        findings=run.findings,
        uplinks=_format_uplinks(plan.uplinks) if plan.uplinks else "",
    )


def _format_uplinks(uplinks: UplinksPlan) -> str:
    links = "" if uplinks.links == 1 else f", {uplinks.links} links to each"
    rate = "" if uplinks.rate_gbps is None else f" at {uplinks.rate_gbps} Gb/s"
    return f"{format_count(uplinks.spines, 'spine')} a rail{links}{rate}"


def _format_list(items: Iterable[object]) -> str:
    """Return the items as text, separated by commas; None is skipped."""
    return ", ".join(str(item) for item in items if item is not None)
