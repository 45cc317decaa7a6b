"""What doctor finds on this node's host, told in the RailNode: it holds no roll-out, it tells people where to look.

Asked every SECONDS, each node at a moment of its own, and never while the host is being changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from zlib import crc32

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.api.times import now
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
from trackbed.doctor.finding import Finding as Found
from trackbed.fabric.documents import DocumentError
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.plan import NodePlan
from trackbed.fabric.plan.wire import parse_node
from trackbed.kernel.netlink.codec import NetlinkError

MANAGER = "trackbed-findings"
SECONDS = 600.0
_SHOWN = 20
_LONGEST = 512

Seen = Callable[[], tuple[RailNodeSpec, RailNodeStatus] | None]
"""The RailNode of this node as it was seen last."""
Examine = Callable[[NodePlan], Awaitable[Diagnosis]]
Tell = Callable[[str], None]


def compute_first_delay(name: str) -> float:
    """When a node is examined first: thousands of agents that start at once do not all look at once."""
    return crc32(name.encode()) % int(SECONDS)


async def publish(client: Client, name: str, seen: Seen, examine: Examine, tell: Tell) -> None:
    """Do it for ever; what could not be written is tried again the next time."""
    await asyncio.sleep(compute_first_delay(name))
    while True:
        rail = seen()
        if rail is not None and rail[0].plan and not rail[0].may_change:
            try:
                await _renew(client, name, rail, examine)
            except KubeError as error:
                tell(f"findings are not told: {error}")
        await asyncio.sleep(SECONDS)


async def _renew(client: Client, name: str, rail: tuple[RailNodeSpec, RailNodeStatus], examine: Examine) -> None:
    """Examine the host, and write what is another than before."""
    spec, status = rail
    condition, findings = await _found(spec, examine)
    old = find(status.conditions, HEALTHY)
    (told,) = put([old] if old.last_transition_time else [], condition, now())
    if (told, findings) == (old, status.findings):
        return
    one: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}}
    fresh = RailNodeStatus(conditions=(told,), findings=findings)
    await client.apply(f"{PATH}/{name}/status", {**one, "status": msgspec.to_builtins(fresh)}, MANAGER)


async def _found(spec: RailNodeSpec, examine: Examine) -> tuple[Condition, tuple[RailNodeFinding, ...]]:
    try:
        found = await examine(parse_node(spec.plan))
    except (OSError, NetlinkError, SpecError, DocumentError) as error:
        return Condition(HEALTHY, "Unknown", "NotExamined", str(error)[:_LONGEST]), ()
    return judge_health(found), list_findings(found)


def judge_health(found: Diagnosis) -> Condition:
    """Whether nothing fails; what nobody could look at is no failure, and no proof either."""
    failed = list(_failed(found))
    if not failed:
        return Condition(HEALTHY, "True", "NothingFails")
    first = failed[0]
    told = f"{len(failed)} failed: {first.id}: {_subject(first)}: {_message(first)}"
    return Condition(HEALTHY, "False", "Broken", told[:_LONGEST])


def list_findings(found: Diagnosis) -> tuple[RailNodeFinding, ...]:
    """The first few that fail."""
    return tuple(RailNodeFinding(one.id, _subject(one), _message(one)) for one in _failed(found))[:_SHOWN]


def _failed(found: Diagnosis) -> Iterator[Found]:
    """What fails and nothing earlier explains, in the order of the chain; then the rest."""
    failed = [one for one in found.findings if one.verdict == "fail"]
    yield from sorted(failed, key=lambda one: one.because is not None)


def _subject(one: Found) -> str:
    return "host" if one.rail is None else f"rail {one.rail}"


def _message(one: Found) -> str:
    return "; ".join(filter(None, (one.title, one.evidence, one.fix)))[:_LONGEST]
