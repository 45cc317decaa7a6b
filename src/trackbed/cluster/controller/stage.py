"""The stage of one node: a function of the node's objects, so that the controller needs no state of its own.

                        plan sent        agent compared      differs
    New -> Outdated -> Checking -----------------------> Waiting (or Held)
                          |                                 |  its turn: taint, cordon
                          | as planned                      v
                          |                              Draining        pods leave
                          v                                 |  none left: mayChange
                        Sound <- Finishing <- Changing <----+
                                 untaint        ^    |  reboot needed: mayReboot
                                                |    v
                                              Rebooting

Failed: a deadline has passed, the agent gave up, or the reboot limit is reached. The node keeps its taint until an
operator intervenes.
"""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

import msgspec

from trackbed.cluster.controller.objects import NodeObject, RailNode
from trackbed.cluster.resources.conditions import find_condition
from trackbed.cluster.resources.railnode import (
    ALLOW_REMOVAL,
    BY_HAND,
    CONTESTED,
    DRIFTED,
    FAILED,
    HELD_REASONS,
    MISFIT,
    NOT_REPAIRED,
    PREPARED,
    RETRY,
)


class Stage(StrEnum):
    """Stages of a node in a roll-out."""

    NEW = "New"
    OUTDATED = "Outdated"
    ABSENT = "Absent"
    CHECKING = "Checking"
    SOUND = "Sound"
    WAITING = "Waiting"
    HELD = "Held"
    EXTENDED = "Extended"
    """Under maintenance by another operator and past half of the drain deadline; the deadline restarts."""
    DRAINING = "Draining"
    CHANGING = "Changing"
    NEEDS_REBOOT = "NeedsReboot"
    """The change needs a reboot, which is not permitted yet."""
    REBOOTING = "Rebooting"
    FINISHING = "Finishing"
    FAILED = "Failed"
    TAKEN = "Taken"
    """The node belongs to another Fabric; the node and its RailNode are left alone."""
    RETRYING = "Retrying"
    LEAVING = "Leaving"
    LEFT = "Left"
    GONE = "Gone"


_HELD_EXPLANATIONS = {
    DRIFTED: "drifted, and not repaired in place while it is paused or under maintenance",
    NOT_REPAIRED: "drifted, and the repair in place failed; its agent tries again",
    BY_HAND: "not drained for what only a person can change",
    CONTESTED: "another program sets it",
}
"""Reason of condition Prepared -> why the node is neither changed nor drained."""

StageWithMessage = tuple[Stage, str]
"""A stage, and a message about it, which may be empty."""

IN_PROGRESS = frozenset(
    {Stage.DRAINING, Stage.CHANGING, Stage.NEEDS_REBOOT, Stage.REBOOTING, Stage.FINISHING, Stage.RETRYING}
)
"""Stages of a node that has begun, and may still finish without an operator."""


class PlanSlice(NamedTuple):
    """A node's part of the newest plan."""

    slot: int
    unit: int
    """Number of the node's scalable unit."""
    digest: str
    """Digest of the node's plan."""


class NodeSnapshot(NamedTuple):
    """The objects of one node, as last read; `plan_slice` is None for a node that the Fabric does not list."""

    name: str
    plan_slice: PlanSlice | None
    railnode: RailNode | None
    node: NodeObject | None
    uncertain: bool = False
    """Whether a write to the Node got no response, so that the node may have begun already."""
    maintenance: str = ""
    """Description of the maintenance by another operator; empty without maintenance."""
    obscurity: str = ""
    """Why an object of the node could not be decoded; empty if all could."""
    has_pods: bool = False
    """Whether pods remained after the last round of evictions of this controller."""

    @property
    def unavailable(self) -> bool:
        """Whether the node accepts no pods now, may soon accept none, or cannot be judged."""
        return bool(self.obscurity) or (
            self.node is not None and (self.node.unavailable or self.uncertain or bool(self.maintenance))
        )


class WaveRules(msgspec.Struct, frozen=True):
    """The Fabric's rules for the firmware wave; limits are numbers of nodes."""

    max_unavailable: int
    canary: int
    paused: bool = False


class RolloutRules(msgspec.Struct, frozen=True):
    """The Fabric's rules for roll-outs; limits are numbers of nodes."""

    fabric: str
    generation: int
    max_unavailable: int
    canary: int
    max_failures: int
    max_reboots: int
    drain_seconds: int
    node_seconds: int
    keep_seconds: int
    firmware: WaveRules
    paused: bool = False
    allow_removal: bool = False
    """Whether the plan may be applied to nodes that it does not fit."""


def find_stage(snapshot: NodeSnapshot, rules: RolloutRules, now: datetime) -> StageWithMessage:  # noqa: C901, PLR0911 - one return for each arrow of the diagram
    """Return the stage of a node, and a message about it.

    `now` is only compared with times that a controller wrote.
    """
    railnode, node, plan_slice = snapshot.railnode, snapshot.node, snapshot.plan_slice
    if snapshot.obscurity:
        return Stage.HELD, snapshot.obscurity
    if plan_slice is None:
        return _find_unlisted_stage(snapshot, rules, now)
    if railnode is None:
        return Stage.NEW, ""
    if railnode.spec.fabric != rules.fabric:
        owner = railnode.spec.fabric
        return Stage.TAKEN, f"fabric {owner} has this node; take it out there, and wait or delete RailNode"
    if railnode.spec.plan_hash != plan_slice.digest or railnode.spec.left_at:
        return Stage.OUTDATED, ""
    if node is None:
        return Stage.ABSENT, "the cluster has no such node; it is prepared as soon as it joins"
    is_compared = railnode.status.observed_hash == plan_slice.digest
    prepared = find_condition(railnode.status.conditions, PREPARED)
    if is_compared and prepared.status == "True":
        is_unfinished = node.marked or railnode.spec.may_change
        return _hold_for_maintenance(snapshot, Stage.FINISHING, "") if is_unfinished else (Stage.SOUND, "")
    if railnode.spec.may_change:
        stage, message = _find_changing_stage(railnode, rules, now, is_compared=is_compared)
        is_held = stage is Stage.NEEDS_REBOOT
        return _hold_for_maintenance(snapshot, stage, message) if is_held else (stage, message)
    if not is_compared:
        return Stage.CHECKING, "its agent has not compared it with the plan yet"
    if node.withdrawn:
        return _find_draining_stage(snapshot, railnode, node, rules, now)
    return _find_waiting_stage(snapshot, railnode, node, rules)


def may_repair(snapshot: NodeSnapshot, rules: RolloutRules) -> bool:
    """Return whether the node's agent may repair drift in place: nobody has paused the node or works on it."""
    railnode, node = snapshot.railnode, snapshot.node
    marked = [item.metadata.annotations for item in (railnode, node) if item is not None]
    return not (rules.paused or snapshot.maintenance or any(marks.paused is not None for marks in marked))


def _hold_for_maintenance(snapshot: NodeSnapshot, stage: Stage, message: str) -> StageWithMessage:
    """Return the stage; stage Held while the node is under maintenance by another operator."""
    if not snapshot.maintenance:
        return stage, message
    return Stage.HELD, "; ".join(filter(None, (snapshot.maintenance, message)))


def _find_unlisted_stage(snapshot: NodeSnapshot, rules: RolloutRules, now: datetime) -> StageWithMessage:
    railnode = snapshot.railnode
    assert railnode is not None  # noqa: S101 - a snapshot has a slice or a RailNode
    if not railnode.spec.left_at or (snapshot.node and snapshot.node.marked):
        return _hold_for_maintenance(snapshot, Stage.LEAVING, "")
    if _measure_age(railnode.spec.left_at, now) > rules.keep_seconds:
        return Stage.GONE, ""
    hours = rules.keep_seconds // 3600
    return Stage.LEFT, f"its addresses are kept for it until {hours} h after {railnode.spec.left_at}"


def _find_changing_stage(
    railnode: RailNode, rules: RolloutRules, now: datetime, *, is_compared: bool
) -> StageWithMessage:
    prepared = find_condition(railnode.status.conditions, PREPARED)
    if railnode.metadata.annotations.retry is not None:
        return Stage.RETRYING, ""
    if is_compared and prepared.reason == FAILED:
        return Stage.FAILED, f"{prepared.message}; mend it, then {_format_retry_command(railnode)}"
    needs_reboot = is_compared and railnode.status.needs_reboot
    if needs_reboot and railnode.spec.may_reboot != railnode.status.boot:
        if railnode.spec.reboots < rules.max_reboots:
            return Stage.NEEDS_REBOOT, prepared.message
        limit = f"it asks for another reboot after {railnode.spec.reboots} (rollout.reboots)"
        return Stage.FAILED, f"{limit}: {prepared.message}; mend it, then {_format_retry_command(railnode)}"
    if _measure_age(railnode.spec.changing_since, now) > rules.node_seconds:
        deadline = f"not prepared {rules.node_seconds // 60} minutes after it was drained or told to reboot"
        state = prepared.message or "its agent says nothing"
        return Stage.FAILED, f"{deadline}: {state}; then {_format_retry_command(railnode)}"
    return Stage.REBOOTING if needs_reboot else Stage.CHANGING, prepared.message


def _find_draining_stage(
    snapshot: NodeSnapshot, railnode: RailNode, node: NodeObject, rules: RolloutRules, now: datetime
) -> StageWithMessage:
    since = node.metadata.annotations.preparing_since
    seconds = _measure_age(since, now) if since else 0.0
    if snapshot.maintenance:  # after the maintenance, pods still have at least half of the deadline to leave
        return Stage.EXTENDED if seconds > rules.drain_seconds / 2 else Stage.HELD, snapshot.maintenance
    if railnode.metadata.annotations.retry is not None:
        return Stage.RETRYING, ""
    if seconds > rules.drain_seconds:
        deadline = f"pods did not leave within {rules.drain_seconds // 60} minutes (rollout.drainMinutes)"
        return Stage.FAILED, f"{deadline}; see to them, then {_format_retry_command(railnode)}"
    return Stage.DRAINING, ""


def _find_waiting_stage(
    snapshot: NodeSnapshot, railnode: RailNode, node: NodeObject, rules: RolloutRules
) -> StageWithMessage:
    prepared = find_condition(railnode.status.conditions, PREPARED)
    if prepared.reason in HELD_REASONS:
        if railnode.metadata.annotations.retry is not None:
            return Stage.RETRYING, ""
        return Stage.HELD, f"{_HELD_EXPLANATIONS[prepared.reason]}: {prepared.message}"
    is_paused = node.metadata.annotations.paused is not None or railnode.metadata.annotations.paused is not None
    obstacles = (
        (prepared.reason == MISFIT and not rules.allow_removal, "the plan does not fit it"),
        (is_paused, "somebody has paused it"),
        (bool(snapshot.maintenance), snapshot.maintenance),
        (node.cordoned_by_others, "somebody has cordoned it"),
        (not node.ready, "its kubelet is not ready"),
    )
    obstacle = next((text for is_there, text in obstacles if is_there), "")
    if not obstacle:
        return Stage.WAITING, prepared.message
    if prepared.reason == MISFIT:
        return Stage.HELD, f"{obstacle}: {prepared.message}; {_format_allow_command(rules)}"
    return Stage.HELD, f"{obstacle}; {prepared.message}"


def _format_allow_command(rules: RolloutRules) -> str:
    command = f"kubectl annotate --overwrite fabric {rules.fabric} {ALLOW_REMOVAL}={rules.generation}"
    return f"correct the Fabric, or apply it all the same: {command}"


def _format_retry_command(railnode: RailNode) -> str:
    return f"kubectl annotate railnode {railnode.metadata.name} {RETRY}="


def _measure_age(since: str, now: datetime) -> float:
    """Return the seconds since a time (RFC 3339); 0 for a malformed time, so that no deadline passes early."""
    try:
        return (now - datetime.fromisoformat(since)).total_seconds()
    except (ValueError, TypeError):
        return 0.0
