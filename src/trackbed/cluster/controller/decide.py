"""The next moves for all nodes of a Fabric, within its limits: a function of snapshots of the nodes.

    no node begins while      maxUnavailable nodes are unavailable, for any reason
                              the canaries are not sound yet
                              more than maxFailures nodes failed, or a canary failed
                              the roll-out is paused
    order                     one scalable unit after the other, by slot; nodes whose firmware differs come last, in a
                              wave of their own (`_BeginQueue`)

A node that has begun always finishes, whatever the limits.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from trackbed.cluster.controller.stage import (
    IN_PROGRESS,
    NodeSnapshot,
    RolloutRules,
    Stage,
    WaveRules,
    find_stage,
    may_repair,
)
from trackbed.cluster.resources.railnode import PAUSED

Verb = Literal["create", "send", "begin", "guard", "drain", "reboot", "finish", "retry", "permit", "leave", "forget"]
"""Name of a move; `act.Actor` makes it."""

_VERB_BY_STAGE: Mapping[Stage, Verb] = {
    Stage.NEW: "create",
    Stage.OUTDATED: "send",
    Stage.DRAINING: "drain",
    Stage.EXTENDED: "begin",
    Stage.NEEDS_REBOOT: "reboot",
    Stage.FINISHING: "finish",
    Stage.RETRYING: "retry",
    Stage.LEAVING: "leave",
    Stage.GONE: "forget",
}
"""Stage of a node -> move that depends on no other node."""


_WAVE_STAGES = IN_PROGRESS | {Stage.WAITING, Stage.HELD, Stage.FAILED}
"""Stages of nodes of the firmware wave that are pending, in progress or failed."""


class StagedNode(NamedTuple):
    """A node with its stage, and a message about the stage."""

    snapshot: NodeSnapshot
    stage: Stage
    message: str

    @property
    def is_in_firmware_wave(self) -> bool:
        """Whether the node belongs to the firmware wave: by its status, or by its spec while it is changed."""
        railnode = self.snapshot.railnode
        if railnode is None:
            return False
        return railnode.spec.firmware if railnode.spec.may_change else railnode.status.firmware


class NodeMove(NamedTuple):
    """A move for one node."""

    verb: Verb
    node: str


class Decision(msgspec.Struct, frozen=True):
    """The next moves of a roll-out, and its state."""

    moves: tuple[NodeMove, ...]
    nodes: tuple[StagedNode, ...]
    counts: Mapping[Stage, int]
    """Number of nodes at each stage, without nodes that have left the Fabric."""
    halt_reason: str = ""
    """Why no node begins although some are waiting; empty while the roll-out continues."""
    paused: bool = False
    """Whether the roll-out is halted on request rather than by a failure."""
    wave_progress: str = ""
    """Progress of the firmware wave while it runs."""


def decide(nodes: Iterable[NodeSnapshot], rules: RolloutRules, now: datetime) -> Decision:
    """Return the next moves for the nodes of a Fabric, and the state of its roll-out."""
    staged = tuple(StagedNode(snapshot, *find_stage(snapshot, rules, now)) for snapshot in nodes)
    moves = [NodeMove(verb, node.snapshot.name) for node in staged if (verb := _choose_verb(node, rules))]
    counts = Counter(node.stage for node in staged if node.snapshot.plan_slice is not None)
    queue = _build_queue(staged)
    capacity = _compute_capacity(staged, rules, firmware=queue.is_firmware_wave) if queue.waiting else _Capacity(0)
    moves += [NodeMove("begin", node.snapshot.name) for node in queue.waiting[: 0 if queue.blocked else capacity.nodes]]
    paused = bool(capacity.halt_reason) and (rules.paused or (queue.is_firmware_wave and rules.firmware.paused))
    wave_progress = _describe_wave(staged, queue, rules)
    return Decision(tuple(moves), staged, counts, capacity.halt_reason, paused, wave_progress)


def _choose_verb(node: StagedNode, rules: RolloutRules) -> Verb | None:
    """Return the move that depends on no other node; None if there is none."""
    if node.stage is Stage.DRAINING and _lacks_taint(node):
        return "guard"
    if node.stage in _VERB_BY_STAGE:
        return _VERB_BY_STAGE[node.stage]
    if _may_be_drained_by_now(node):
        return "drain"
    if _lacks_taint(node):
        return "guard"
    return "permit" if _has_wrong_permission(node, rules) else None


def _may_be_drained_by_now(node: StagedNode) -> bool:
    """Return whether a node failed by the deadline of its drain, and this controller has seen no pods on it.

    The controller that wrote when the drain began may have had a wrong clock.
    """
    railnode = node.snapshot.railnode
    is_permitted = railnode is None or railnode.spec.may_change
    return node.stage is Stage.FAILED and not is_permitted and not node.snapshot.has_pods


class _BeginQueue(NamedTuple):
    """The nodes that may begin next: first nodes without a firmware change, then those of the firmware wave."""

    waiting: Sequence[StagedNode]
    """Nodes that may begin, in order, as far as the limits allow."""
    is_firmware_wave: bool
    """Whether `waiting` holds the nodes of the firmware wave."""
    blocked: bool
    """Whether `waiting` must wait until nodes of the firmware wave that have begun are finished."""
    uncompared: StagedNode | None
    """The first node that blocks the firmware wave because its agent has not compared it with the plan yet."""


def _build_queue(nodes: Sequence[StagedNode]) -> _BeginQueue:
    """Return the nodes that may begin next."""
    ahead = [node for node in nodes if not node.is_in_firmware_wave and (_may_be_changed(node) or _is_uncompared(node))]
    uncompared = ahead[0] if ahead and all(_is_uncompared(node) for node in ahead) else None
    if not ahead:
        wave = _select_waiting(node for node in nodes if node.is_in_firmware_wave)
        return _BeginQueue(wave, is_firmware_wave=True, blocked=False, uncompared=None)
    blocked = any(
        node.is_in_firmware_wave and node.stage is not Stage.WAITING and _may_be_changed(node) for node in nodes
    )
    waiting = _select_waiting(node for node in nodes if not node.is_in_firmware_wave)
    return _BeginQueue(waiting, is_firmware_wave=False, blocked=blocked, uncompared=uncompared)


def _may_be_changed(node: StagedNode) -> bool:
    """Return whether a node is being changed, must be changed, or is not compared with its newest plan yet."""
    return node.stage in IN_PROGRESS or node.stage in {Stage.NEW, Stage.OUTDATED, Stage.WAITING}


def _is_uncompared(node: StagedNode) -> bool:
    """Return whether a ready node has yet to be compared with the plan; other nodes do not hold up the roll-out."""
    return node.stage is Stage.CHECKING and node.snapshot.node is not None and node.snapshot.node.ready


def _select_waiting(nodes: Iterable[StagedNode]) -> list[StagedNode]:
    """Return the waiting nodes of the first scalable unit that is not finished, by slot."""
    unfinished = [node for node in nodes if node.stage is Stage.WAITING or node.stage in IN_PROGRESS]
    unit = min((_get_unit(node) for node in unfinished), default=0)
    waiting = [node for node in unfinished if node.stage is Stage.WAITING and _get_unit(node) == unit]
    return sorted((node for node in waiting if not node.snapshot.uncertain), key=_get_slot)


def _describe_wave(nodes: Sequence[StagedNode], queue: _BeginQueue, rules: RolloutRules) -> str:
    """Return the progress of the firmware wave; empty unless it runs, blocks other nodes, or awaits a comparison."""
    remaining = sum(node.is_in_firmware_wave and node.stage in _WAVE_STAGES for node in nodes)
    if not remaining or not (queue.is_firmware_wave or queue.blocked or queue.uncompared):
        return ""
    done = sum(_is_changed(node, rules, firmware=True) for node in nodes)
    uncompared = queue.uncompared
    blocker = f"; {uncompared.snapshot.name} comes first: {uncompared.message}" if uncompared else ""
    return f"firmware wave: {done} of {format_node_count(done + remaining)}{blocker}"


def _is_changed(node: StagedNode, rules: RolloutRules, *, firmware: bool) -> bool:
    """Return whether a node is sound and was changed at this generation; with `firmware`, in the firmware wave."""
    railnode = node.snapshot.railnode
    if node.stage is not Stage.SOUND or railnode is None or railnode.spec.changed_generation != rules.generation:
        return False
    return railnode.spec.firmware or not firmware


def _lacks_taint(node: StagedNode) -> bool:
    """Return whether a node that is being drained or changed has lost its taint."""
    railnode, kubernetes_node = node.snapshot.railnode, node.snapshot.node
    if railnode is None or kubernetes_node is None or kubernetes_node.tainted:
        return False
    return node.stage is Stage.DRAINING or (railnode.spec.may_change and node.stage in IN_PROGRESS)


def _has_wrong_permission(node: StagedNode, rules: RolloutRules) -> bool:
    """Return whether the permission to repair drift in place must be given to a listed node, or withdrawn."""
    railnode, is_listed = node.snapshot.railnode, node.snapshot.plan_slice is not None
    if railnode is None or not is_listed or node.stage is Stage.TAKEN:
        return False
    return railnode.spec.may_repair is not may_repair(node.snapshot, rules)


class _Capacity(NamedTuple):
    """How many nodes may begin, or why none may until an operator intervenes."""

    nodes: int
    halt_reason: str = ""


def _compute_capacity(nodes: Sequence[StagedNode], rules: RolloutRules, *, firmware: bool) -> _Capacity:
    """Return how many nodes may begin; with `firmware`, of the firmware wave."""
    if reason := _find_halt_reason(nodes, rules, firmware=firmware):
        return _Capacity(0, reason)
    limits = rules.firmware if firmware else rules
    unavailable = [node for node in nodes if node.snapshot.unavailable]
    begun = sum(node.stage in IN_PROGRESS for node in nodes)
    capacity = limits.max_unavailable - len(unavailable)
    if capacity <= 0 and not begun:
        return _Capacity(0, _explain_limit(unavailable, limits))
    changed = sum(_is_changed(node, rules, firmware=firmware) for node in nodes)
    if changed < limits.canary:
        capacity = min(capacity, limits.canary - changed - begun)
    return _Capacity(max(capacity, 0))


def _find_halt_reason(nodes: Sequence[StagedNode], rules: RolloutRules, *, firmware: bool) -> str:
    """Return why the roll-out is paused or halted; empty if nodes may begin."""
    if rules.paused:
        return f"paused: rollout.paused, or annotation {PAUSED}"
    if firmware and (reason := _find_wave_halt_reason([node for node in nodes if node.is_in_firmware_wave], rules)):
        return reason
    failed = [node for node in nodes if node.stage is Stage.FAILED]
    if len(failed) > rules.max_failures:
        limit = f"{rules.max_failures} may (rollout.maxFailures)"
        return f"{format_node_count(len(failed))} failed, {limit}: {_describe_first_node(failed)}"
    changed = sum(_is_changed(node, rules, firmware=False) for node in nodes)
    return f"a canary failed: {_describe_first_node(failed)}" if failed and changed < rules.canary else ""


def _find_wave_halt_reason(wave: Sequence[StagedNode], rules: RolloutRules) -> str:
    """Return why the firmware wave is paused or halted; empty if its nodes may begin."""
    if rules.firmware.paused:
        waiting = format_node_count(sum(node.stage is Stage.WAITING for node in wave))
        return f"firmware wave paused: {waiting} to go (rollout.firmware.paused)"
    failed = [node for node in wave if node.stage is Stage.FAILED]
    return f"the firmware wave halts at its first failure: {_describe_first_node(failed)}" if failed else ""


def _explain_limit(unavailable: Sequence[StagedNode], limits: RolloutRules | WaveRules) -> str:
    """Return the exhausted limit, and the first unavailable node, as text."""
    field = "rollout.maxUnavailable" if isinstance(limits, RolloutRules) else "rollout.firmware.maxUnavailable"
    limit = f"{format_node_count(len(unavailable))} unavailable, {limits.max_unavailable} may be ({field})"
    if not unavailable:
        return limit
    node = min(unavailable, key=_get_slot)
    return f"{limit}: {node.snapshot.name} is {node.stage}{f': {node.message}' if node.message else ''}"


def format_node_count(count: int) -> str:
    """Return a number of nodes as text: `1 node`, `3 nodes`."""
    return f"{count} node{'' if count == 1 else 's'}"


def _describe_first_node(nodes: Sequence[StagedNode]) -> str:
    node = min(nodes, key=_get_slot)
    return f"{node.snapshot.name}: {node.message}"


def _get_unit(node: StagedNode) -> int:
    return node.snapshot.plan_slice.unit if node.snapshot.plan_slice else 0


def _get_slot(node: StagedNode) -> int:
    return node.snapshot.plan_slice.slot if node.snapshot.plan_slice else 0
