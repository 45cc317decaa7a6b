"""The checks between nodes, and their findings: one for each fault, whatever the number of nodes that see it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from trackbed.doctor.across import alike, cables, unique
from trackbed.doctor.across.excerpt import NodeExcerpt
from trackbed.doctor.across.occurrence import Occurrence
from trackbed.doctor.catalogue import build_finding, load_catalogue
from trackbed.doctor.finding import FaultEnd, Finding
from trackbed.fabric.host_ranges import fold_hosts
from trackbed.fabric.plan.plan import NodePlan

UNREAD = "node-unread"
"""Id of the finding of nodes of which nothing was read. It is no fault of the catalogue: they may be sound."""


class NodeCheck(NamedTuple):
    """A check between nodes: its fault, what it needs of each excerpt, and the function that finds occurrences."""

    fault_id: str
    part: str
    """Attribute of NodeExcerpt; None there means not read."""
    find: Callable[[Sequence[NodeExcerpt], Mapping[str, NodePlan]], Iterator[Occurrence]]


CHECKS = (
    NodeCheck("fw-version-mixed", "firmware", alike.find_firmware),
    NodeCheck("driver-version-unexpected", "driver", alike.find_drivers),
    NodeCheck("vfs-guid-duplicate", "guids", unique.find_shared_guids),
    NodeCheck("vfs-mac-duplicate", "macs", unique.find_shared_macs),
    NodeCheck("names-rail-order-differs", "rail_order", alike.find_rail_orders),
    NodeCheck("switch-leaf-down", "ports", cables.find_dark_leaves),
    NodeCheck("addr-duplicate-on-rail", "addresses", unique.find_shared_addresses),
    NodeCheck("fabric-port-on-wrong-leaf", "cables", cables.find_swapped_cables),
    NodeCheck("kubelet-duplicate-node-name", "identity", unique.find_shared_names),
)
"""In the order of the catalogue: cause before effect."""


def judge_nodes(excerpts: Sequence[NodeExcerpt], nodes: Mapping[str, NodePlan]) -> tuple[Finding, ...]:
    """Return the findings of all checks between nodes: what is broken, then what is unknown, then what passed.

    `nodes` has the plan of each node. Of a single node, only what is broken within it is returned.
    """
    findings = [finding for check in CHECKS for finding in _run_check(check, excerpts, nodes)]
    if len(excerpts) == 1:
        findings = [finding for finding in findings if finding.ends]
    order = ("fail", "warn", "unknown", "pass")
    findings.sort(key=lambda finding: order.index(finding.verdict))
    return (*_report_unread(excerpts), *findings)


def list_check_ids(findings: Sequence[Finding]) -> tuple[list[str], list[str]]:
    """Return the ids of the checks between nodes that were made, and of those that were not, or not for every node."""
    unknown = {finding.id for finding in findings if finding.verdict == "unknown"}
    made = {finding.id for finding in findings if finding.verdict != "unknown"} - unknown
    ids = [check.fault_id for check in CHECKS]
    return [fault_id for fault_id in ids if fault_id in made], [fault_id for fault_id in ids if fault_id not in made]


def _run_check(check: NodeCheck, excerpts: Sequence[NodeExcerpt], nodes: Mapping[str, NodePlan]) -> Iterator[Finding]:
    parts = [getattr(excerpt, check.part) for excerpt in excerpts]
    readable = [excerpt for excerpt, part in zip(excerpts, parts, strict=True) if part is not None]
    occurrences = list(check.find(readable, nodes))
    for occurrence in occurrences:
        yield _build_finding(check.fault_id, occurrence, nodes)
    unread = [excerpt for excerpt, part in zip(excerpts, parts, strict=True) if part is None]
    if unread:
        yield _build_unknown(check, unread, len(excerpts))
    elif not occurrences and sum(map(bool, parts)) > 1:
        yield _build_general(check.fault_id, "pass", "")


def _build_finding(fault_id: str, occurrence: Occurrence, nodes: Mapping[str, NodePlan]) -> Finding:
    """Return the finding of an occurrence, on its first end."""
    node, rail = nodes[occurrence.ends[0].node], occurrence.ends[0].rail
    port = None if rail is None else node.find_port(rail)
    finding = build_finding(fault_id, node, port, ok=False, evidence=occurrence.evidence)
    return msgspec.structs.replace(finding, ends=occurrence.ends)


def _build_unknown(check: NodeCheck, unread: Sequence[NodeExcerpt], total: int) -> Finding:
    names = fold_hosts(sorted({excerpt.node for excerpt in unread}))
    evidence = f"not read of {names} ({len(unread)} of {total} nodes)"
    finding = _build_general(check.fault_id, "unknown", evidence)
    is_consequence = all(excerpt.failure for excerpt in unread)
    return msgspec.structs.replace(finding, because=UNREAD) if is_consequence else finding


def _build_general(fault_id: str, verdict: str, evidence: str) -> Finding:
    """Return a finding about all nodes."""
    fault = load_catalogue()[fault_id]
    return Finding(fault.id, fault.step, "pass" if verdict == "pass" else "unknown", fault.title, evidence)


def _report_unread(excerpts: Sequence[NodeExcerpt]) -> Iterator[Finding]:
    """Yield one finding for the nodes of which nothing was read, by reason."""
    reasons: dict[str, list[str]] = {}
    for excerpt in excerpts:
        if excerpt.failure:
            reasons.setdefault(excerpt.failure, []).append(excerpt.node)
    for reason, names in reasons.items():
        yield Finding(
            UNREAD,
            "fabric",
            "unknown",
            "every node was read",
            f"{fold_hosts(names)}: {reason}",
            "Nothing was read of these nodes, so what they share with others is not known.",
            "Look at the hosts, then run this again; the other findings are of the nodes that were read.",
            node=names[0],
            ends=tuple(FaultEnd(name) for name in names),
        )
