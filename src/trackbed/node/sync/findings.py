"""Doctor's failing checks of this node's host, published in the RailNode's status for people; roll-outs ignore them.

Beside them the status has a report of the host, by which the controller compares the nodes of a Fabric. The host is
examined every SECONDS, each node at a different time, and never while the host is being changed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
from msgspec import UNSET, UnsetType

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.api.paths import join_path
from trackbed.cluster.api.times import format_now
from trackbed.cluster.resources.conditions import Condition, find_condition, put_condition
from trackbed.cluster.resources.railnode import (
    API_VERSION,
    HEALTHY,
    KIND,
    PATH,
    RailNodeFinding,
    RailNodeSpec,
    RailNodeStatus,
)
from trackbed.doctor.diagnosis import Diagnosis
from trackbed.doctor.finding import Finding
from trackbed.fabric.documents import DocumentError
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.node_document import parse_node
from trackbed.fabric.plan.plan import NodePlan
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.node.sync.doctor import Examination
from trackbed.node.sync.host_report import build_report

MANAGER = "trackbed-findings"
SECONDS = 600.0
"""Interval between examinations of the host."""
_MAX_FINDINGS = 20
_MAX_CHARACTERS = 512

Examine = Callable[[NodePlan], Awaitable[Examination]]
"""Examines the host of a node."""
WatchedRailNode = tuple[RailNodeSpec, RailNodeStatus]
"""Spec and status of a RailNode as last watched."""


class _HealthReport(NamedTuple):
    """The condition Healthy of a RailNode, the findings behind it, and the report for comparisons with other nodes."""

    condition: Condition
    findings: tuple[RailNodeFinding, ...] = ()
    report: dict[str, Any] | UnsetType = UNSET


def compute_first_delay(node_name: str) -> float:
    """Return the seconds until a node's first examination, spread so that agents started together do not coincide."""
    return crc32(node_name.encode()) % int(SECONDS)


async def publish_findings(
    client: Client,
    node_name: str,
    get_rail_node: Callable[[], WatchedRailNode | None],
    examine: Examine,
    report: Callable[[str], None],
) -> None:
    """Publish doctor's findings until cancelled. A failed write is retried at the next examination.

    `get_rail_node` returns the RailNode of this node as last watched, or None.
    """
    await asyncio.sleep(compute_first_delay(node_name))
    while True:
        rail_node = get_rail_node()
        if rail_node is not None and rail_node[0].plan and not rail_node[0].may_change:
            try:
                await _update_status(client, node_name, rail_node, examine)
            except KubeError as error:
                report(f"findings are not published: {error}")
        await asyncio.sleep(SECONDS)


async def _update_status(client: Client, node_name: str, rail_node: WatchedRailNode, examine: Examine) -> None:
    """Examine the host, and write the RailNode's status if it has changed."""
    _, status = rail_node
    judged, findings, report = await _examine_host(rail_node, examine)
    old = find_condition(status.conditions, HEALTHY)
    (condition,) = put_condition([old] if old.last_transition_time else [], judged, format_now())
    if (condition, findings, report) == (old, status.findings, status.report):
        return
    new_status = msgspec.to_builtins(RailNodeStatus(conditions=(condition,), findings=findings, report=report))
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": node_name}, "status": new_status}
    await client.apply(join_path(PATH, node_name, "status"), body, MANAGER)


async def _examine_host(rail_node: WatchedRailNode, examine: Examine) -> _HealthReport:
    spec, status = rail_node
    try:
        examination = await examine(parse_node(spec.plan))
    except (OSError, NetlinkError, SpecError, DocumentError) as error:
        return _HealthReport(Condition(HEALTHY, "Unknown", "NotExamined", str(error)[:_MAX_CHARACTERS]))
    diagnosis, excerpt = examination
    report = msgspec.json.decode(msgspec.json.encode(build_report(excerpt, status.reached_hash)))  # as it is read back
    return _HealthReport(judge_health(diagnosis), list_failures(diagnosis), report)


def judge_health(diagnosis: Diagnosis) -> Condition:
    """Return the condition Healthy: False if a check fails. Checks with an unknown result are ignored."""
    failed = _list_failed(diagnosis)
    if not failed:
        return Condition(HEALTHY, "True", "NothingFails")
    first = failed[0]
    message = f"{len(failed)} failed: {first.id}: {_format_subject(first)}: {_format_message(first)}"
    return Condition(HEALTHY, "False", "Broken", message[:_MAX_CHARACTERS])


def list_failures(diagnosis: Diagnosis) -> tuple[RailNodeFinding, ...]:
    """Return the failing findings, at most _MAX_FINDINGS."""
    return tuple(
        RailNodeFinding(finding.id, _format_subject(finding), _format_message(finding))
        for finding in _list_failed(diagnosis)[:_MAX_FINDINGS]
    )


def _list_failed(diagnosis: Diagnosis) -> list[Finding]:
    """Return the failing findings in the order of checks; those that another finding explains are last."""
    failed = (finding for finding in diagnosis.findings if finding.verdict == "fail")
    return sorted(failed, key=lambda finding: finding.because is not None)


def _format_subject(finding: Finding) -> str:
    return "host" if finding.rail is None else f"rail {finding.rail}"


def _format_message(finding: Finding) -> str:
    return "; ".join(filter(None, (finding.title, finding.evidence, finding.fix)))[:_MAX_CHARACTERS]
