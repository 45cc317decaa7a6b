"""The checks between nodes, and their findings: one for each fault, whatever the number of nodes that see it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from trackbed.doctor.across import alike, cables, unique
from trackbed.doctor.across.excerpt import NodeExcerpt
from trackbed.doctor.across.occurrence import Occurrence
from trackbed.doctor.across.sources import (
    drop_repeated,
    explain_unread,
    report_pseudonymous,
    report_repeated,
    report_unread,
)
from trackbed.doctor.catalogue import build_finding, load_catalogue
from trackbed.doctor.finding import Finding
from trackbed.fabric.host_ranges import fold_hosts
from trackbed.fabric.plan.plan import NodePlan


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

    `nodes` has the plan of each node. Of a single node, only what is broken within it is returned. Of several captures
    of one host, the first is judged.
    """
    excerpts, repeated = drop_repeated(excerpts)
    findings = [finding for check in CHECKS for finding in _run_check(check, excerpts, nodes)]
    if len(excerpts) == 1:
        findings = [finding for finding in findings if finding.ends]
    order = ("fail", "warn", "unknown", "pass")
    findings.sort(key=lambda finding: order.index(finding.verdict))
    return (*report_unread(excerpts), *report_repeated(repeated), *report_pseudonymous(excerpts), *findings)


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
    unread = [e for e, part in zip(excerpts, parts, strict=True) if part is None or check.part in e.gaps]
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
    reasons: dict[str, list[str]] = {}
    for excerpt in unread:
        reasons.setdefault(excerpt.gaps.get(check.part, ""), []).append(excerpt.node)
    evidence = "; ".join(_describe_unread(reason, names, total) for reason, names in reasons.items())
    finding = _build_general(check.fault_id, "unknown", evidence)
    causes = [explain_unread(excerpt, check.part) for excerpt in unread]
    return msgspec.structs.replace(finding, because=causes[0]) if all(causes) else finding


def _describe_unread(reason: str, names: Sequence[str], total: int) -> str:
    scope = f"not read of {fold_hosts(sorted(set(names)))} ({len(names)} of {total} nodes)"
    return f"{scope}: {reason}" if reason else scope


def _build_general(fault_id: str, verdict: str, evidence: str) -> Finding:
    """Return a finding about all nodes."""
    fault = load_catalogue()[fault_id]
    return Finding(fault.id, fault.step, "pass" if verdict == "pass" else "unknown", fault.title, evidence)
