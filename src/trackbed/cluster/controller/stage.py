"""Where one node stands: a function of what the cluster says of it, so nothing need be remembered.

                        plan sent        agent looked        differs
    New -> Outdated -> Checking -----------------------> Waiting (or Held)
                          |                                 |  its turn: taint, cordon
                          | as planned                      v
                          |                              Draining        pods leave
                          v                                 |  none left: mayChange
                        Sound <- Finishing <- Changing <----+
                                 untaint        ^    |  only a reboot helps: mayReboot
                                                |    v
                                              Rebooting

Failed: too long in one place, the agent gave up, or one reboot too many. It keeps its taint until somebody looks.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from trackbed.cluster.controller.objects import NodeObject, RailNode
from trackbed.cluster.resources.conditions import find
from trackbed.cluster.resources.railnode import FAILED, PREPARED, RETRY


class Stage(StrEnum):
    """Where a node stands."""

    NEW = "New"
    OUTDATED = "Outdated"
    ABSENT = "Absent"
    CHECKING = "Checking"
    SOUND = "Sound"
    WAITING = "Waiting"
    HELD = "Held"
    EXTENDED = "Extended"
    """Others have it, and its time to drain is over: it gets as much again."""
    DRAINING = "Draining"
    CHANGING = "Changing"
    NEEDS_REBOOT = "NeedsReboot"
    """Only a reboot helps, and the boot that it is in may not end yet."""
    REBOOTING = "Rebooting"
    FINISHING = "Finishing"
    FAILED = "Failed"
    TAKEN = "Taken"
    """Another Fabric has it: nothing is done to it, and nothing told in its RailNode."""
    RETRYING = "Retrying"
    LEAVING = "Leaving"
    LEFT = "Left"
    GONE = "Gone"


IN_PROGRESS = frozenset(
    {Stage.DRAINING, Stage.CHANGING, Stage.NEEDS_REBOOT, Stage.REBOOTING, Stage.FINISHING, Stage.RETRYING}
)
"""Stages of a node that has begun and may still come to its end by itself."""


class Slice(NamedTuple):
    """What the newest plan has for a node."""

    slot: int
    unit: int
    digest: str


class Standing(NamedTuple):
    """All that the cluster says of one node; a wanted slice of None: the Fabric does not name it."""

    name: str
    wanted: Slice | None
    rail: RailNode | None
    node: NodeObject | None
    unsure: bool = False
    """Whether a write to the Node got no answer, so that it may have begun already."""
    maintenance: str = ""
    """Why others have it in maintenance; empty where they do not."""

    @property
    def unavailable(self) -> bool:
        """Whether the node takes no pods now, or may not."""
        return self.node is not None and (self.node.unavailable or self.unsure or bool(self.maintenance))


class Wave(msgspec.Struct, frozen=True):
    """What the Fabric says about the firmware wave, in nodes."""

    unavailable: int
    canary: int
    paused: bool = False


class Rules(msgspec.Struct, frozen=True):
    """What the Fabric says about roll-outs, in nodes and seconds."""

    fabric: str
    generation: int
    unavailable: int
    canary: int
    failures: int
    reboots: int
    drain_seconds: int
    node_seconds: int
    keep_seconds: int
    firmware: Wave
    paused: bool = False


def stage(one: Standing, rules: Rules, now: datetime) -> tuple[Stage, str]:  # noqa: PLR0911 - the drawing has as many places
    """Where a node stands, and why in words; `now` is compared with times that this controller wrote."""
    rail, node, wanted = one.rail, one.node, one.wanted
    if wanted is None:
        return _left(one, rules, now)
    if rail is None:
        return Stage.NEW, ""
    if rail.spec.fabric != rules.fabric:
        return Stage.TAKEN, f"fabric {rail.spec.fabric} has this node; take it out there, and wait or delete RailNode"
    if rail.spec.plan_hash != wanted.digest or rail.spec.left_at:
        return Stage.OUTDATED, ""
    if node is None:
        return Stage.ABSENT, "the cluster has no such node; it is prepared as soon as it joins"
    seen = rail.status.observed_hash == wanted.digest
    prepared = find(rail.status.conditions, PREPARED)
    if seen and prepared.status == "True":
        return _as_planned(one, rail, node)
    if rail.spec.may_change:
        found, why = _changing(rail, rules, now, seen=seen)
        return _alone(one, found, why) if found is Stage.NEEDS_REBOOT else (found, why)
    if not seen:
        return Stage.CHECKING, "its agent has not compared it with the plan yet"
    if node.begun:
        return _draining(one, rail, node, rules, now)
    return _waiting(one, rail, node, prepared.message)


def _alone(one: Standing, found: Stage, why: str) -> tuple[Stage, str]:
    """A stage whose next step waits for those who have the node in maintenance."""
    return (Stage.HELD, "; ".join(filter(None, (one.maintenance, why)))) if one.maintenance else (found, why)


def _as_planned(one: Standing, rail: RailNode, node: NodeObject) -> tuple[Stage, str]:
    if node.begun or rail.spec.may_change:
        return _alone(one, Stage.FINISHING, "")
    return Stage.SOUND, ""


def _left(one: Standing, rules: Rules, now: datetime) -> tuple[Stage, str]:
    rail = one.rail
    assert rail is not None  # noqa: S101 - a node that neither Fabric nor RailNode names is not looked at
    if not rail.spec.left_at or (one.node and one.node.begun):
        return _alone(one, Stage.LEAVING, "")
    if _age(rail.spec.left_at, now) > rules.keep_seconds:
        return Stage.GONE, ""
    return Stage.LEFT, f"its addresses are kept for it until {rules.keep_seconds // 3600} h after {rail.spec.left_at}"


def _changing(rail: RailNode, rules: Rules, now: datetime, *, seen: bool) -> tuple[Stage, str]:
    """A node that is drained and in its agent's hands."""
    told = find(rail.status.conditions, PREPARED)
    if rail.metadata.annotations.retry is not None:
        return Stage.RETRYING, ""
    if seen and told.reason == FAILED:
        return Stage.FAILED, f"{told.message}; mend it, then {_retry(rail)}"
    reboots = seen and rail.status.needs_reboot
    if reboots and rail.spec.may_reboot != rail.status.boot:
        return _needs_reboot(rail, rules, told.message)
    if _age(rail.spec.changing_since, now) > rules.node_seconds:
        since = f"not prepared {rules.node_seconds // 60} minutes after it was drained or told to reboot"
        return Stage.FAILED, f"{since}: {told.message or 'its agent says nothing'}; then {_retry(rail)}"
    return Stage.REBOOTING if reboots else Stage.CHANGING, told.message


def _needs_reboot(rail: RailNode, rules: Rules, message: str) -> tuple[Stage, str]:
    if rail.spec.reboots >= rules.reboots:
        count = f"it asks for another reboot after {rail.spec.reboots} (rollout.reboots)"
        return Stage.FAILED, f"{count}: {message}; mend it, then {_retry(rail)}"
    return Stage.NEEDS_REBOOT, message


def _draining(one: Standing, rail: RailNode, node: NodeObject, rules: Rules, now: datetime) -> tuple[Stage, str]:
    since = node.metadata.annotations.since
    drained = _age(since, now) if since else 0.0
    if one.maintenance:  # pods that must leave afterwards are to have half of the time at least
        return Stage.EXTENDED if drained > rules.drain_seconds / 2 else Stage.HELD, one.maintenance
    if rail.metadata.annotations.retry is not None:
        return Stage.RETRYING, ""
    if drained > rules.drain_seconds:
        told = f"pods did not leave within {rules.drain_seconds // 60} minutes (rollout.drainMinutes)"
        return Stage.FAILED, f"{told}; see to them, then {_retry(rail)}"
    return Stage.DRAINING, ""


def _waiting(one: Standing, rail: RailNode, node: NodeObject, message: str) -> tuple[Stage, str]:
    if node.metadata.annotations.paused is not None or rail.metadata.annotations.paused is not None:
        return Stage.HELD, f"somebody has paused it; {message}"
    if one.maintenance:
        return Stage.HELD, f"{one.maintenance}; {message}"
    if node.cordoned_by_others:
        return Stage.HELD, f"somebody has cordoned it; {message}"
    if not node.ready:
        return Stage.HELD, f"its kubelet is not ready; {message}"
    return Stage.WAITING, message


def _retry(rail: RailNode) -> str:
    return f"kubectl annotate railnode {rail.metadata.name} {RETRY}="


def _age(since: str, now: datetime) -> float:
    """Seconds since a time; 0 for one that cannot be read: better too late than at once."""
    try:
        return (now - datetime.fromisoformat(since)).total_seconds()
    except (ValueError, TypeError):
        return 0.0
