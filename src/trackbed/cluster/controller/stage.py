"""The stage of one node: a function of what the cluster reports of it, so the controller keeps no state of its own.

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
from trackbed.cluster.resources.conditions import find
from trackbed.cluster.resources.railnode import FAILED, PREPARED, RETRY


class Stage(StrEnum):
    """Stages of a node."""

    NEW = "New"
    OUTDATED = "Outdated"
    ABSENT = "Absent"
    CHECKING = "Checking"
    SOUND = "Sound"
    WAITING = "Waiting"
    HELD = "Held"
    EXTENDED = "Extended"
    """Under maintenance by another operator and past half of its drain deadline; the deadline restarts."""
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


IN_PROGRESS = frozenset(
    {Stage.DRAINING, Stage.CHANGING, Stage.NEEDS_REBOOT, Stage.REBOOTING, Stage.FINISHING, Stage.RETRYING}
)
"""Stages of a node that has started and may still finish without help."""


class Slice(NamedTuple):
    """A node's part of the newest plan."""

    slot: int
    unit: int
    digest: str


class Standing(NamedTuple):
    """All that the cluster reports of one node; `wanted` is None for a node that the Fabric does not list."""

    name: str
    wanted: Slice | None
    railnode: RailNode | None
    node: NodeObject | None
    uncertain: bool = False
    """Whether a write to the Node got no response, so that the node may have started already."""
    maintenance: str = ""
    """Description of the maintenance by another operator; empty where there is none."""

    @property
    def unavailable(self) -> bool:
        """Whether the node accepts no pods now, or may accept none."""
        return self.node is not None and (self.node.unavailable or self.uncertain or bool(self.maintenance))


class WaveRules(msgspec.Struct, frozen=True):
    """The Fabric's rules for the firmware wave, in nodes."""

    max_unavailable: int
    canary: int
    paused: bool = False


class Rules(msgspec.Struct, frozen=True):
    """The Fabric's rules for roll-outs, in nodes and seconds."""

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


def find_stage(standing: Standing, rules: Rules, now: datetime) -> tuple[Stage, str]:  # noqa: PLR0911 - one return for each arrow of the drawing
    """Return the stage of a node, and a message; `now` is compared with times that this controller wrote."""
    railnode, node, wanted = standing.railnode, standing.node, standing.wanted
    if wanted is None:
        return _judge_unlisted(standing, rules, now)
    if railnode is None:
        return Stage.NEW, ""
    if railnode.spec.fabric != rules.fabric:
        owner = railnode.spec.fabric
        return Stage.TAKEN, f"fabric {owner} has this node; take it out there, and wait or delete RailNode"
    if railnode.spec.plan_hash != wanted.digest or railnode.spec.left_at:
        return Stage.OUTDATED, ""
    if node is None:
        return Stage.ABSENT, "the cluster has no such node; it is prepared as soon as it joins"
    is_compared = railnode.status.observed_hash == wanted.digest
    prepared = find(railnode.status.conditions, PREPARED)
    if is_compared and prepared.status == "True":
        is_unfinished = node.tainted or railnode.spec.may_change
        return _hold_for_maintenance(standing, Stage.FINISHING, "") if is_unfinished else (Stage.SOUND, "")
    if railnode.spec.may_change:
        stage, message = _judge_changing(railnode, rules, now, is_compared=is_compared)
        is_held = stage is Stage.NEEDS_REBOOT
        return _hold_for_maintenance(standing, stage, message) if is_held else (stage, message)
    if not is_compared:
        return Stage.CHECKING, "its agent has not compared it with the plan yet"
    if node.tainted:
        return _judge_draining(standing, railnode, node, rules, now)
    return _judge_waiting(standing, railnode, node, prepared.message)


def _hold_for_maintenance(standing: Standing, stage: Stage, message: str) -> tuple[Stage, str]:
    """Return the stage, or Held while another operator has the node under maintenance."""
    if not standing.maintenance:
        return stage, message
    return Stage.HELD, "; ".join(filter(None, (standing.maintenance, message)))


def _judge_unlisted(standing: Standing, rules: Rules, now: datetime) -> tuple[Stage, str]:
    """Return the stage of a node that the Fabric no longer lists."""
    railnode = standing.railnode
    assert railnode is not None  # noqa: S101 - a standing has a slice or a RailNode
    if not railnode.spec.left_at or (standing.node and standing.node.tainted):
        return _hold_for_maintenance(standing, Stage.LEAVING, "")
    if _measure_age(railnode.spec.left_at, now) > rules.keep_seconds:
        return Stage.GONE, ""
    hours = rules.keep_seconds // 3600
    return Stage.LEFT, f"its addresses are kept for it until {hours} h after {railnode.spec.left_at}"


def _judge_changing(railnode: RailNode, rules: Rules, now: datetime, *, is_compared: bool) -> tuple[Stage, str]:
    """Return the stage of a drained node that its agent may change."""
    prepared = find(railnode.status.conditions, PREPARED)
    if railnode.metadata.annotations.retry is not None:
        return Stage.RETRYING, ""
    if is_compared and prepared.reason == FAILED:
        return Stage.FAILED, f"{prepared.message}; mend it, then {_render_retry(railnode)}"
    needs_reboot = is_compared and railnode.status.needs_reboot
    if needs_reboot and railnode.spec.may_reboot != railnode.status.boot:
        if railnode.spec.reboots < rules.max_reboots:
            return Stage.NEEDS_REBOOT, prepared.message
        limit = f"it asks for another reboot after {railnode.spec.reboots} (rollout.reboots)"
        return Stage.FAILED, f"{limit}: {prepared.message}; mend it, then {_render_retry(railnode)}"
    if _measure_age(railnode.spec.changing_since, now) > rules.node_seconds:
        deadline = f"not prepared {rules.node_seconds // 60} minutes after it was drained or told to reboot"
        state = prepared.message or "its agent says nothing"
        return Stage.FAILED, f"{deadline}: {state}; then {_render_retry(railnode)}"
    return Stage.REBOOTING if needs_reboot else Stage.CHANGING, prepared.message


def _judge_draining(
    standing: Standing, railnode: RailNode, node: NodeObject, rules: Rules, now: datetime
) -> tuple[Stage, str]:
    since = node.metadata.annotations.since
    seconds = _measure_age(since, now) if since else 0.0
    if standing.maintenance:  # after the maintenance, pods still get at least half of the deadline to leave
        return Stage.EXTENDED if seconds > rules.drain_seconds / 2 else Stage.HELD, standing.maintenance
    if railnode.metadata.annotations.retry is not None:
        return Stage.RETRYING, ""
    if seconds > rules.drain_seconds:
        deadline = f"pods did not leave within {rules.drain_seconds // 60} minutes (rollout.drainMinutes)"
        return Stage.FAILED, f"{deadline}; see to them, then {_render_retry(railnode)}"
    return Stage.DRAINING, ""


def _judge_waiting(standing: Standing, railnode: RailNode, node: NodeObject, message: str) -> tuple[Stage, str]:
    if node.metadata.annotations.paused is not None or railnode.metadata.annotations.paused is not None:
        return Stage.HELD, f"somebody has paused it; {message}"
    if standing.maintenance:
        return Stage.HELD, f"{standing.maintenance}; {message}"
    if node.cordoned_by_others:
        return Stage.HELD, f"somebody has cordoned it; {message}"
    if not node.ready:
        return Stage.HELD, f"its kubelet is not ready; {message}"
    return Stage.WAITING, message


def _render_retry(railnode: RailNode) -> str:
    return f"kubectl annotate railnode {railnode.metadata.name} {RETRY}="


def _measure_age(since: str, now: datetime) -> float:
    """Return the seconds since a time; 0 for an unreadable time, so that no deadline passes early."""
    try:
        return (now - datetime.fromisoformat(since)).total_seconds()
    except (ValueError, TypeError):
        return 0.0
