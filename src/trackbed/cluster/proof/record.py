"""What a proof says of nodes, kept in the cluster: condition Proved of RailNodes, an event at each change, a taint.

    proved    Proved is True; our taint is removed
    blamed    Proved is False; the node is tainted
    unknown   Proved is Unknown; the taint stays as it is

A node without a RailNode is left alone: RailNodes are made by the controller. Pods of a proof tolerate the taint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from trackbed.cluster.api.concurrency import run_all
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.events import Event, record_event
from trackbed.cluster.api.metadata import ObjectMetadata, PartialObject
from trackbed.cluster.api.paths import join_path
from trackbed.cluster.api.response import Object
from trackbed.cluster.api.times import format_now
from trackbed.cluster.resources.conditions import Condition, Status, find_condition, put_condition
from trackbed.cluster.resources.railnode import API_VERSION, KIND, PATH, PROVED, UNPROVED_TAINT

if TYPE_CHECKING:
    from trackbed.cluster.api.client import Client
    from trackbed.prove.node_outcomes import NodeOutcome, NodeState

_NODES: Final = "/api/v1/nodes"
MANAGER: Final = "trackbed-proof"


class _Rendering(NamedTuple):
    """A state of a node as status of its condition, and as reason and type of an event."""

    status: Status
    reason: str
    event_type: Literal["Normal", "Warning"]


_RENDERINGS: Final[Mapping[NodeState, _Rendering]] = {
    "proved": _Rendering("True", "Proved", "Normal"),
    "blamed": _Rendering("False", "NotProved", "Warning"),
    "unknown": _Rendering("Unknown", "ProofOpen", "Normal"),
}
_MAX_MESSAGE_CHARACTERS: Final = 1024
_CUT: Final = " ..."
_ATTEMPTS: Final = 5
"""Attempts to write a Node's taints; its kubelet may write it between our read and our write."""


class Recorded(NamedTuple):
    """The nodes of which something was written, and those of which nothing was."""

    nodes: Mapping[Status, Sequence[str]]
    """Status of condition Proved -> nodes that have it now."""
    absent: Sequence[str]
    """Nodes without a RailNode."""
    failures: Mapping[str, str]
    """Node -> why the API server refused the write of its RailNode or of its taints."""


class _RailNodeStatus(msgspec.Struct, frozen=True):
    """The status of a RailNode: its conditions."""

    conditions: tuple[Condition, ...] = ()


class _JudgedRailNode(msgspec.Struct, frozen=True):
    """A RailNode, reduced to its conditions."""

    metadata: ObjectMetadata
    status: _RailNodeStatus = _RailNodeStatus()


class _NodeSpec(msgspec.Struct, frozen=True):
    """The spec of a Node: its taints with all their fields, since they are written back."""

    taints: tuple[Object, ...] = ()


class _Node(msgspec.Struct, frozen=True):
    """A Node (v1), reduced to its taints."""

    metadata: ObjectMetadata
    spec: _NodeSpec = _NodeSpec()


async def has_railnodes(client: Client) -> bool:
    """Return whether the cluster has any RailNode. Raises KubeError."""
    try:
        async for _ in client.iter_objects(PATH, PartialObject, limit="1"):
            return True
    except ApiRefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
    return False


async def record_outcomes(client: Client, outcomes: Sequence[NodeOutcome], *, taints: bool) -> Recorded:
    """Write condition Proved of the RailNodes and, with `taints`, the taints of the Nodes.

    A write that is refused does not stop those of other nodes. Raises KubeError if RailNodes cannot be listed, or the
    API server does not respond.
    """
    railnodes = {item.metadata.name: item async for item in client.iter_objects(PATH, _JudgedRailNode)}
    known = [outcome for outcome in outcomes if outcome.node in railnodes]
    refusals = await run_all([partial(_record, client, railnodes[item.node], item, taints=taints) for item in known])
    failures = {outcome.node: refusal for outcome, refusal in zip(known, refusals, strict=True) if refusal}
    nodes: dict[Status, list[str]] = {}
    for outcome in known:
        if outcome.node not in failures:
            nodes.setdefault(_RENDERINGS[outcome.state].status, []).append(outcome.node)
    return Recorded(nodes, [outcome.node for outcome in outcomes if outcome.node not in railnodes], failures)


async def _record(client: Client, railnode: _JudgedRailNode, outcome: NodeOutcome, *, taints: bool) -> str:
    """Write what a proof says of one node; return why that was refused, or an empty text."""
    try:
        await _write_condition(client, railnode, outcome)
        if taints and outcome.state != "unknown":
            await _write_taint(client, outcome.node, tainted=outcome.state == "blamed")
    except ApiRefusedError as error:
        return f"{error.message} ({error.status} {error.reason})"
    return ""


async def _write_condition(client: Client, railnode: _JudgedRailNode, outcome: NodeOutcome) -> None:
    """Write condition Proved, and an event if its status or reason is new."""
    name, now, rendering = railnode.metadata.name, format_now(), _RENDERINGS[outcome.state]
    old = find_condition(railnode.status.conditions, PROVED)
    message = _shorten(f"measured at {now}: {outcome.message}")
    judged = Condition(PROVED, rendering.status, outcome.reason, message)
    (condition,) = put_condition([old] if old.last_transition_time else [], judged, now)
    status = {"conditions": msgspec.to_builtins([condition])}
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "status": status}
    await client.apply(join_path(PATH, name, "status"), body, MANAGER)
    if (old.status, old.reason) != (condition.status, condition.reason):
        regarding = {"apiVersion": API_VERSION, "kind": KIND, "name": name, "uid": railnode.metadata.uid}
        event = Event(rendering.reason, message, rendering.event_type, "trackbed.dev/prove", "Prove")
        await record_event(client, regarding, event)


def _shorten(message: str) -> str:
    """Return a message of a length that a condition has, without control characters: a node may have written it."""
    message = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in message)
    if len(message) <= _MAX_MESSAGE_CHARACTERS:
        return message
    return message[: _MAX_MESSAGE_CHARACTERS - len(_CUT)] + _CUT


async def _write_taint(client: Client, name: str, *, tainted: bool) -> None:
    """Add our taint to a Node or remove it, if the cluster has that Node."""
    path = join_path(_NODES, name)
    for attempt in range(1, _ATTEMPTS + 1):
        node = await client.find(path, _Node)
        if node is None or tainted == any(taint["key"] == UNPROVED_TAINT for taint in node.spec.taints):
            return
        taints = [taint for taint in node.spec.taints if taint["key"] != UNPROVED_TAINT]
        if tainted:
            taints.append({"key": UNPROVED_TAINT, "effect": "NoSchedule"})
        change = {"metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": taints or None}}
        try:
            await client.merge(path, change)
        except ApiRefusedError as error:
            if error.status != HTTPStatus.CONFLICT or attempt == _ATTEMPTS:
                raise
        else:
            return
