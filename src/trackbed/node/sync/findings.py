"""Doctor's failing checks of this node's host, published in the RailNode's status for people; roll-outs ignore them.

The host is examined every SECONDS, each node at a different time, and never while the host is being changed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from zlib import crc32

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.api.times import format_now
from trackbed.cluster.resources.conditions import Condition, find, put
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
from trackbed.fabric.plan.plan import NodePlan
from trackbed.fabric.plan.wire import parse_node
from trackbed.kernel.netlink.codec import NetlinkError

MANAGER = "trackbed-findings"
SECONDS = 600.0
_MAX_FINDINGS = 20
_MAX_CHARACTERS = 512

GetRailNode = Callable[[], tuple[RailNodeSpec, RailNodeStatus] | None]
"""Returns the RailNode of this node as last watched."""
Examine = Callable[[NodePlan], Awaitable[Diagnosis]]
Report = Callable[[str], None]


def compute_first_delay(name: str) -> float:
    """Return the seconds until a node's first examination, spread so that agents started together do not coincide."""
    return crc32(name.encode()) % int(SECONDS)


async def publish(client: Client, name: str, get_rail_node: GetRailNode, examine: Examine, report: Report) -> None:
    """Publish findings until cancelled. A failed write is retried at the next examination."""
    await asyncio.sleep(compute_first_delay(name))
    while True:
        rail_node = get_rail_node()
        if rail_node is not None and rail_node[0].plan and not rail_node[0].may_change:
            try:
                await _update_status(client, name, rail_node, examine)
            except KubeError as error:
                report(f"findings are not published: {error}")
        await asyncio.sleep(SECONDS)


async def _update_status(
    client: Client, name: str, rail_node: tuple[RailNodeSpec, RailNodeStatus], examine: Examine
) -> None:
    """Examine the host, and write the status if it changed."""
    spec, status = rail_node
    judged, findings = await _examine(spec, examine)
    old = find(status.conditions, HEALTHY)
    (condition,) = put([old] if old.last_transition_time else [], judged, format_now())
    if (condition, findings) == (old, status.findings):
        return
    new_status = msgspec.to_builtins(RailNodeStatus(conditions=(condition,), findings=findings))
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "status": new_status}
    await client.apply(f"{PATH}/{name}/status", body, MANAGER)


async def _examine(spec: RailNodeSpec, examine: Examine) -> tuple[Condition, tuple[RailNodeFinding, ...]]:
    try:
        diagnosis = await examine(parse_node(spec.plan))
    except (OSError, NetlinkError, SpecError, DocumentError) as error:
        return Condition(HEALTHY, "Unknown", "NotExamined", str(error)[:_MAX_CHARACTERS]), ()
    return judge_health(diagnosis), list_findings(diagnosis)


def judge_health(diagnosis: Diagnosis) -> Condition:
    """Return the condition: False if a check fails. Checks with an unknown result count neither way."""
    failed = list(_iter_failed(diagnosis))
    if not failed:
        return Condition(HEALTHY, "True", "NothingFails")
    first = failed[0]
    message = f"{len(failed)} failed: {first.id}: {_format_subject(first)}: {_format_message(first)}"
    return Condition(HEALTHY, "False", "Broken", message[:_MAX_CHARACTERS])


def list_findings(diagnosis: Diagnosis) -> tuple[RailNodeFinding, ...]:
    """Return the first failing findings."""
    return tuple(
        RailNodeFinding(finding.id, _format_subject(finding), _format_message(finding))
        for finding in _iter_failed(diagnosis)
    )[:_MAX_FINDINGS]


def _iter_failed(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield the failing findings in the order of checks, first those that no other finding explains."""
    failed = [finding for finding in diagnosis.findings if finding.verdict == "fail"]
    yield from sorted(failed, key=lambda finding: finding.because is not None)


def _format_subject(finding: Finding) -> str:
    return "host" if finding.rail is None else f"rail {finding.rail}"


def _format_message(finding: Finding) -> str:
    return "; ".join(filter(None, (finding.title, finding.evidence, finding.fix)))[:_MAX_CHARACTERS]
