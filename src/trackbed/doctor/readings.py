"""Nodes that are read over SSH: each is judged as its answer arrives, and only excerpt and findings are kept.

    NodeReading ──> NodeView ──> judge_reading ──> JudgedNode ─┐
    a node that was not read ──> JudgedNode with a failure ───┴─> diagnose_judged_nodes ──> Diagnosis

Gateways, peers and pods are not tested over SSH, and the files of the next boot are not compared, so the faults that
need them are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from trackbed.doctor.across.excerpt import NodeExcerpt, excerpt_node
from trackbed.doctor.across.judgement import judge_nodes
from trackbed.doctor.checks import FILE_STEPS, run_checks
from trackbed.doctor.diagnosis import Diagnosis, LeftOut, merge_findings, select_finding_to_fix
from trackbed.doctor.finding import Finding
from trackbed.doctor.probes import ProbeTimeouts
from trackbed.doctor.unjudged import UNREAD
from trackbed.doctor.view import NodeView, ProbeResults
from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.machine import Machine
from trackbed.host.snapshot.reading import NodeReading
from trackbed.host.state import HostState

LEFT_OUT: Final = LeftOut(
    ("addr-not-persistent", "cni", "pod", "switch-route-missing"),
    "boot files, pods, gateways and peers are tested on a node itself: trackbed doctor",
)
_NOT_READ: Final = frozenset({"addr-not-persistent"})
"""Faults whose input is not part of a reading; their check would call every node unknown."""
_MAX_FINDINGS: Final = 500
_MAX_EVIDENCE_CHARACTERS: Final = 1000
"""A host may send anything, and what is kept of it is bounded."""


class JudgedNode(NamedTuple):
    """What is kept of a node."""

    excerpt: NodeExcerpt
    findings: tuple[Finding, ...] = ()
    """The node's own findings, without what passed unless that was asked for."""
    passed: tuple[str, ...] = ()
    """Ids of the passed checks that are not among the findings, once for each check."""


def judge_reading(
    node: NodePlan, reading: NodeReading, lldp_seconds: float, *, keeps_passes: bool = False
) -> JudgedNode:
    """Run all checks on a node that was read; without its network, those of its files.

    `lldp_seconds` is how long the node listened. Files of a container are compared with those of other nodes, but its
    kernel and devices are not its own, so no check of the host is made.
    """
    view = _build_view(node, reading, lldp_seconds)
    judgeable = replace(view, host=None) if reading.shared_reason else view
    steps = None if view.state.links else FILE_STEPS
    findings = [finding for finding in run_checks(judgeable, steps) if finding.id not in _NOT_READ]
    kept = [finding for finding in findings if keeps_passes or finding.verdict != "pass"]
    passed = () if keeps_passes else tuple(finding.id for finding in findings if finding.verdict == "pass")
    return JudgedNode(excerpt_node(view), tuple(_truncate_findings(kept, node.name)), passed)


def _build_view(node: NodePlan, reading: NodeReading, lldp_seconds: float) -> NodeView:
    machine, network = Machine(Path("/nowhere"), unseen_reason="it was read over SSH"), reading.network
    failure = reading.failure or reading.lldp.failure
    if network is None:
        state = HostState(machine, (), (), (), (), ())
        return NodeView(node, state, host=reading.snapshot, lldp_failure=failure)
    state = HostState(machine, network.links, network.addresses, network.routes, network.rules, ())
    return NodeView(
        node,
        state,
        sysctls=network.sysctls,
        rails_in_pods=frozenset(port.rail for port in node.ports if port.netdev in network.moved),
        probes={} if failure else _build_probes(node, state, reading, lldp_seconds),
        lldp_failure=failure,
        chains=network.chains,
        host=reading.snapshot,
        vfs=network.vfs,
        dcb=network.dcb,
        unread=network.unread,
    )


def _build_probes(
    node: NodePlan, state: HostState, reading: NodeReading, lldp_seconds: float
) -> dict[int, ProbeResults]:
    """Return what LLDP said on each port with carrier."""
    missed = False if lldp_seconds > ProbeTimeouts().lldp_interval else None
    links = {port.rail: state.find_link(port.netdev) for port in node.ports}
    heard = {port.rail: reading.lldp.neighbours.get(port.netdev) for port in node.ports}
    return {
        rail: ProbeResults(lldp=heard[rail], lldp_heard=True if heard[rail] else missed)
        for rail, link in links.items()
        if link is not None and link.is_up and link.carrier
    }


def _truncate_findings(findings: Sequence[Finding], name: str) -> Iterator[Finding]:
    for finding in findings[:_MAX_FINDINGS]:
        is_long = len(finding.evidence) > _MAX_EVIDENCE_CHARACTERS
        evidence = finding.evidence[:_MAX_EVIDENCE_CHARACTERS] + " ..." if is_long else finding.evidence
        yield msgspec.structs.replace(finding, evidence=evidence) if is_long else finding
    if len(findings) > _MAX_FINDINGS:
        evidence = f"{len(findings)} findings, of which the first {_MAX_FINDINGS} are shown"
        fix = "Run trackbed doctor on the node itself."
        yield Finding(TOO_MANY, "fabric", "unknown", "a node has few findings", evidence, fix=fix, node=name)


TOO_MANY: Final = "too-many-findings"
"""Id of the finding of a node whose other findings are not shown. It is no fault of the catalogue."""


def diagnose_judged_nodes(judged: Sequence[JudgedNode], nodes: Mapping[str, NodePlan]) -> Diagnosis:
    """Compare the nodes with each other, and merge their own findings; the findings between nodes come first."""
    between = judge_nodes([node.excerpt for node in judged], nodes)
    merged = (merge_findings(node.excerpt.node, node.findings, between) for node in judged)
    findings = (*between, *(finding for of_node in merged for finding in of_node))
    unread = next((finding for finding in between if finding.id == UNREAD.id), None)
    first = select_finding_to_fix(findings) or unread
    return Diagnosis(findings, first, (LEFT_OUT,), sum(len(node.passed) for node in judged))


def list_own_check_ids(judged: Sequence[JudgedNode]) -> tuple[list[str], list[str]]:
    """Return the ids of the checks that were made of every node that was read, and of those that were not.

    A check that had nothing to check on a node counts as made there.
    """
    findings = [finding for node in judged for finding in node.findings]
    unknown = {finding.id for finding in findings if finding.verdict == "unknown"}
    made = {finding.id for finding in findings} | {fault_id for node in judged for fault_id in node.passed}
    return sorted(made - unknown), sorted(unknown)
