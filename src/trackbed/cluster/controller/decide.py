"""The next moves for all nodes of a Fabric, within its limits: a function of their standings.

    no node begins while      maxUnavailable nodes are unavailable, for any reason
                              the canaries are not sound yet
                              more than maxFailures nodes failed, or a canary failed
                              the roll-out is paused
    order                     one scalable unit after the other, by slot; nodes whose firmware differs come last, in a
                              wave of their own (`_Turn`)

A node that has begun always finishes.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from trackbed.cluster.controller.stage import IN_PROGRESS, Rules, Stage, Standing, WaveRules, find_stage
from trackbed.cluster.resources.railnode import PAUSED

Verb = Literal["create", "send", "begin", "guard", "drain", "reboot", "finish", "retry", "leave", "forget"]

_VERBS: Mapping[Stage, Verb] = {
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
"""Moves that follow from a node's stage alone, whatever the other nodes do."""


_WAVE = IN_PROGRESS | {Stage.WAITING, Stage.HELD, Stage.FAILED}
"""Stages of nodes of the firmware wave that are pending, in progress or failed."""


class StagedNode(NamedTuple):
    """A node with its stage and a message."""

    standing: Standing
    stage: Stage
    message: str

    @property
    def firmware(self) -> bool:
        """Whether the node belongs to the firmware wave: by its agent's report, and by its spec once it changes."""
        railnode = self.standing.railnode
        if railnode is None:
            return False
        return railnode.spec.firmware if railnode.spec.may_change else railnode.status.firmware


class Decision(msgspec.Struct, frozen=True):
    """The next moves, and the state of the roll-out."""

    moves: tuple[tuple[Verb, str], ...]
    """Verb and node."""
    nodes: tuple[StagedNode, ...]
    counts: Mapping[Stage, int]
    """Nodes at each stage, without those that the Fabric no longer lists."""
    halt_reason: str = ""
    """Why no node begins although some should; empty while the roll-out continues."""
    paused: bool = False
    """Whether the roll-out is halted on request rather than by a failure."""
    wave_progress: str = ""
    """Progress of the firmware wave while it runs."""


def decide(nodes: Iterable[Standing], rules: Rules, now: datetime) -> Decision:
    """Return the next moves."""
    staged = tuple(StagedNode(standing, *find_stage(standing, rules, now)) for standing in nodes)
    moves: list[tuple[Verb, str]] = []
    for node in staged:
        if node.stage in _VERBS:
            moves.append((_VERBS[node.stage], node.standing.name))
        elif _lacks_taint(node):
            moves.append(("guard", node.standing.name))
    counts = Counter(node.stage for node in staged if node.standing.wanted is not None)
    turn = _find_turn(staged)
    room, halt_reason = _count_room(staged, rules, firmware=turn.firmware) if turn.waiting else (0, "")
    moves += [("begin", node.standing.name) for node in turn.waiting[: 0 if turn.blocked else room]]
    paused = bool(halt_reason) and (rules.paused or (turn.firmware and rules.firmware.paused))
    return Decision(tuple(moves), staged, counts, halt_reason, paused, _describe_wave(staged, turn, rules))


class _Turn(NamedTuple):
    """The nodes that may begin: first those without a firmware change, then the firmware wave."""

    waiting: Sequence[StagedNode]
    """Nodes that may begin if there is room, in order."""
    firmware: bool
    """Whether these nodes are the firmware wave."""
    blocked: bool
    """Whether the nodes wait until those of the firmware wave that have begun are finished."""
    uncompared: StagedNode | None
    """The first node that blocks the firmware wave only because its agent has not compared it with the plan."""


def _find_turn(nodes: Sequence[StagedNode]) -> _Turn:
    ahead = [node for node in nodes if not node.firmware and (_is_under_way(node) or _is_uncompared(node))]
    uncompared = ahead[0] if ahead and all(_is_uncompared(node) for node in ahead) else None
    if not ahead:
        wave = _select_waiting(node for node in nodes if node.firmware)
        return _Turn(wave, firmware=True, blocked=False, uncompared=None)
    blocked = any(node.firmware and node.stage is not Stage.WAITING and _is_under_way(node) for node in nodes)
    waiting = _select_waiting(node for node in nodes if not node.firmware)
    return _Turn(waiting, firmware=False, blocked=blocked, uncompared=uncompared)


def _is_under_way(node: StagedNode) -> bool:
    """Return whether a node changes or will; the plan of an outdated node may require any change."""
    return node.stage in IN_PROGRESS or node.stage in {Stage.NEW, Stage.OUTDATED, Stage.WAITING}


def _is_uncompared(node: StagedNode) -> bool:
    """Return whether a running agent has yet to compare the node; nodes that are down delay no other node."""
    return node.stage is Stage.CHECKING and node.standing.node is not None and node.standing.node.ready


def _select_waiting(nodes: Iterable[StagedNode]) -> list[StagedNode]:
    """Return the nodes that may begin, by slot: those of the first scalable unit that is not finished."""
    unfinished = [node for node in nodes if node.stage is Stage.WAITING or node.stage in IN_PROGRESS]
    unit = min((_get_unit(node) for node in unfinished), default=0)
    waiting = [node for node in unfinished if node.stage is Stage.WAITING and _get_unit(node) == unit]
    return sorted((node for node in waiting if not node.standing.uncertain), key=_get_slot)


def _describe_wave(nodes: Sequence[StagedNode], turn: _Turn, rules: Rules) -> str:
    """Return the progress of the firmware wave; empty unless it runs, is blocked, or awaits a comparison."""
    remaining = sum(node.firmware and node.stage in _WAVE for node in nodes)
    if not remaining or not (turn.firmware or turn.blocked or turn.uncompared):
        return ""
    done = sum(_is_changed(node, rules, firmware=True) for node in nodes)
    blocker = f"; {turn.uncompared.standing.name} comes first: {turn.uncompared.message}" if turn.uncompared else ""
    return f"firmware wave: {done} of {format_count(done + remaining)}{blocker}"


def _is_changed(node: StagedNode, rules: Rules, *, firmware: bool) -> bool:
    """Return whether a node is sound and was changed at this generation; with `firmware`, in the firmware wave."""
    railnode = node.standing.railnode
    if node.stage is not Stage.SOUND or railnode is None or railnode.spec.changed_generation != rules.generation:
        return False
    return railnode.spec.firmware or not firmware


def _lacks_taint(node: StagedNode) -> bool:
    """Return whether the taint was removed from a node that is being changed."""
    railnode, kubernetes_node = node.standing.railnode, node.standing.node
    if railnode is None or kubernetes_node is None or kubernetes_node.tainted:
        return False
    return railnode.spec.may_change and node.stage in IN_PROGRESS


def _count_room(nodes: Sequence[StagedNode], rules: Rules, *, firmware: bool) -> tuple[int, str]:
    """Return how many nodes may begin, and the reason to halt if there is one."""
    if reason := _find_halt(nodes, rules, firmware=firmware):
        return 0, reason
    limits = rules.firmware if firmware else rules
    unavailable = [node for node in nodes if node.standing.unavailable]
    begun = sum(node.stage in IN_PROGRESS for node in nodes)
    room = limits.max_unavailable - len(unavailable)
    if room <= 0 and not begun:
        return 0, _explain_full(unavailable, limits)
    changed = sum(_is_changed(node, rules, firmware=firmware) for node in nodes)
    if changed < limits.canary:
        room = min(room, limits.canary - changed - begun)
    return max(room, 0), ""


def _find_halt(nodes: Sequence[StagedNode], rules: Rules, *, firmware: bool) -> str:
    """Return why no node begins, whatever room there is; empty where nodes may begin."""
    if rules.paused:
        return f"paused: rollout.paused, or annotation {PAUSED}"
    if firmware and (reason := _find_wave_halt([node for node in nodes if node.firmware], rules)):
        return reason
    failed = [node for node in nodes if node.stage is Stage.FAILED]
    if len(failed) > rules.max_failures:
        limit = f"{rules.max_failures} may (rollout.maxFailures)"
        return f"{format_count(len(failed))} failed, {limit}: {_describe_first(failed)}"
    changed = sum(_is_changed(node, rules, firmware=False) for node in nodes)
    return f"a canary failed: {_describe_first(failed)}" if failed and changed < rules.canary else ""


def _find_wave_halt(wave: Sequence[StagedNode], rules: Rules) -> str:
    if rules.firmware.paused:
        waiting = format_count(sum(node.stage is Stage.WAITING for node in wave))
        return f"firmware wave paused: {waiting} to go (rollout.firmware.paused)"
    failed = [node for node in wave if node.stage is Stage.FAILED]
    return f"the firmware wave halts at its first failure: {_describe_first(failed)}" if failed else ""


def _explain_full(unavailable: Sequence[StagedNode], limits: Rules | WaveRules) -> str:
    """Return why no node may begin until an operator intervenes."""
    field = "rollout.maxUnavailable" if isinstance(limits, Rules) else "rollout.firmware.maxUnavailable"
    limit = f"{format_count(len(unavailable))} unavailable, {limits.max_unavailable} may be ({field})"
    if not unavailable:
        return limit
    node = min(unavailable, key=_get_slot)
    return f"{limit}: {node.standing.name} is {node.stage}{f': {node.message}' if node.message else ''}"


def format_count(nodes: int) -> str:
    """Return the number of nodes with its noun."""
    return f"{nodes} node{'' if nodes == 1 else 's'}"


def _describe_first(nodes: Sequence[StagedNode]) -> str:
    """Return the name and the message of the node with the lowest slot."""
    node = min(nodes, key=_get_slot)
    return f"{node.standing.name}: {node.message}"


def _get_unit(node: StagedNode) -> int:
    return node.standing.wanted.unit if node.standing.wanted else 0


def _get_slot(node: StagedNode) -> int:
    return node.standing.wanted.slot if node.standing.wanted else 0
