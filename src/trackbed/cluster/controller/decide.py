"""What to do next with all nodes of a Fabric, never more at once than it allows: a function of where they stand.

    no more begin while       as many nodes are unavailable, for whatever reason, as may be
                              the canaries are not sound yet
                              more nodes failed than may fail, or a canary did
                              somebody paused it
    order                     one scalable unit after the other, by slot; nodes whose firmware differs come last, in a
                              wave of their own (`_Turn`)

What has begun always goes on to its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from trackbed.cluster.controller.stage import IN_PROGRESS, Rules, Stage, Standing, Wave, stage
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
"""What follows from a stage alone, without regard to other nodes."""


_WAVE = IN_PROGRESS | {Stage.WAITING, Stage.HELD, Stage.FAILED}
"""Stages of nodes of the firmware wave that are still to come, or did not get there."""


class Placed(NamedTuple):
    """A node, where it stands, and why."""

    standing: Standing
    stage: Stage
    why: str

    @property
    def firmware(self) -> bool:
        """Whether it is of the firmware wave: by what its agent found, and once it changes by what it began with."""
        rail = self.standing.rail
        return rail is not None and (rail.spec.firmware if rail.spec.may_change else rail.status.firmware)


class Decision(msgspec.Struct, frozen=True):
    """What to do, and how it stands."""

    moves: tuple[tuple[Verb, str], ...]
    """What to do with which node."""
    placed: tuple[Placed, ...]
    counts: Mapping[Stage, int]
    """Nodes at each stage, those that the Fabric names no more left out."""
    halted: str = ""
    """Why no node begins although some should; empty where that is not so."""
    paused: bool = False
    """Whether that is because somebody wants it so, and nothing is wrong."""
    wave: str = ""
    """How far the firmware wave is, while it is on."""


def decide(nodes: Iterable[Standing], rules: Rules, now: datetime) -> Decision:
    """What to do now."""
    placed = tuple(Placed(one, *stage(one, rules, now)) for one in nodes)
    moves: list[tuple[Verb, str]] = []
    for one in placed:
        if one.stage in _VERBS:
            moves.append((_VERBS[one.stage], one.standing.name))
        elif _unguarded(one):
            moves.append(("guard", one.standing.name))
    counts = Counter(one.stage for one in placed if one.standing.wanted is not None)
    turn = _turn(placed)
    room, halted = _room(placed, rules, firmware=turn.firmware) if turn.waiting else (0, "")
    moves += [("begin", one.standing.name) for one in turn.waiting[: 0 if turn.blocked else room]]
    paused = bool(halted) and (rules.paused or (turn.firmware and rules.firmware.paused))
    return Decision(tuple(moves), placed, counts, halted, paused, _wave(placed, turn, rules))


class _Turn(NamedTuple):
    """Whose turn it is: first all nodes whose firmware is as planned or not judged yet, then the firmware wave."""

    waiting: Sequence[Placed]
    """Those that may begin if there is room, in order."""
    firmware: bool
    """Whether it is the firmware wave's."""
    blocked: bool
    """Whether they wait until what has begun of the firmware wave is through."""
    unseen: Placed | None
    """The node that alone keeps the firmware wave from beginning, as nobody has compared it."""


def _turn(placed: Sequence[Placed]) -> _Turn:
    ahead = [one for one in placed if not one.firmware and (_is_under_way(one) or _is_unseen(one))]
    unseen = ahead[0] if all(_is_unseen(one) for one in ahead) and ahead else None
    if not ahead:
        return _Turn(_waiting(one for one in placed if one.firmware), firmware=True, blocked=False, unseen=None)
    blocked = any(one.firmware and one.stage is not Stage.WAITING and _is_under_way(one) for one in placed)
    return _Turn(_waiting(one for one in placed if not one.firmware), firmware=False, blocked=blocked, unseen=unseen)


def _is_under_way(one: Placed) -> bool:
    """Whether it changes or is to; what was sent last to one that is outdated may be anything."""
    return one.stage in IN_PROGRESS or one.stage in {Stage.NEW, Stage.OUTDATED, Stage.WAITING}


def _is_unseen(one: Placed) -> bool:
    """Whether its agent should have compared it by now: who is down for weeks keeps nobody from anything."""
    return one.stage is Stage.CHECKING and one.standing.node is not None and one.standing.node.ready


def _waiting(nodes: Iterable[Placed]) -> list[Placed]:
    """Those of some nodes that may begin: of the first unit that has not come to its end."""
    open_ = [one for one in nodes if one.stage is Stage.WAITING or one.stage in IN_PROGRESS]
    unit = min((_unit(one) for one in open_), default=0)
    found = [o for o in open_ if o.stage is Stage.WAITING and _unit(o) == unit and not o.standing.unsure]
    return sorted(found, key=_slot)


def _wave(placed: Sequence[Placed], turn: _Turn, rules: Rules) -> str:
    """How far the firmware wave is, where it is on or held up by a node that nobody has compared."""
    left = sum(one.firmware and one.stage in _WAVE for one in placed)
    if not left or not (turn.firmware or turn.blocked or turn.unseen):
        return ""
    done = sum(_is_proved(one, rules, firmware=True) for one in placed)
    held_up = f"; {turn.unseen.standing.name} comes first: {turn.unseen.why}" if turn.unseen else ""
    return f"firmware wave: {done} of {counted(done + left)}{held_up}"


def _is_proved(one: Placed, rules: Rules, *, firmware: bool) -> bool:
    """Whether a node is sound and was changed with this generation; in the firmware wave, if that is asked."""
    rail = one.standing.rail
    if one.stage is not Stage.SOUND or rail is None or rail.spec.changed_generation != rules.generation:
        return False
    return rail.spec.firmware or not firmware


def _unguarded(one: Placed) -> bool:
    """Whether a node is being changed, and somebody took its taint away."""
    rail, node = one.standing.rail, one.standing.node
    return bool(rail and node and rail.spec.may_change and not node.begun and one.stage in IN_PROGRESS)


def _room(placed: Sequence[Placed], rules: Rules, *, firmware: bool) -> tuple[int, str]:
    """How many more nodes may begin, and why none, where it is not for a lack of room."""
    if halted := _halted(placed, rules, firmware=firmware):
        return 0, halted
    own = rules.firmware if firmware else rules
    unavailable = [one for one in placed if one.standing.unavailable]
    begun = sum(one.stage in IN_PROGRESS for one in placed)
    room = own.unavailable - len(unavailable)
    if room <= 0 and not begun:
        return 0, _full(unavailable, own)
    proved = sum(_is_proved(one, rules, firmware=firmware) for one in placed)
    if proved < own.canary:
        room = min(room, own.canary - proved - begun)
    return max(room, 0), ""


def _halted(placed: Sequence[Placed], rules: Rules, *, firmware: bool) -> str:
    """Why no node begins, whatever room there is; empty where that is not so."""
    if rules.paused:
        return f"paused: rollout.paused, or annotation {PAUSED}"
    if firmware and (why := _wave_halted([one for one in placed if one.firmware], rules)):
        return why
    failed = [one for one in placed if one.stage is Stage.FAILED]
    if len(failed) > rules.failures:
        return f"{counted(len(failed))} failed, {rules.failures} may (rollout.maxFailures): {_first(failed)}"
    proved = sum(_is_proved(one, rules, firmware=False) for one in placed)
    return f"a canary failed: {_first(failed)}" if failed and proved < rules.canary else ""


def _wave_halted(wave: Sequence[Placed], rules: Rules) -> str:
    if rules.firmware.paused:
        waiting = counted(sum(one.stage is Stage.WAITING for one in wave))
        return f"firmware wave paused: {waiting} to go (rollout.firmware.paused)"
    failed = [one for one in wave if one.stage is Stage.FAILED]
    return f"the firmware wave halts at its first failure: {_first(failed)}" if failed else ""


def _full(unavailable: Sequence[Placed], own: Rules | Wave) -> str:
    """Why there is no room for any node, and none will be by itself."""
    said = "rollout.maxUnavailable" if isinstance(own, Rules) else "rollout.firmware.maxUnavailable"
    told = f"{counted(len(unavailable))} unavailable, {own.unavailable} may be ({said})"
    if not unavailable:
        return told
    one = min(unavailable, key=_slot)
    return f"{told}: {one.standing.name} is {one.stage}{f': {one.why}' if one.why else ''}"


def counted(nodes: int) -> str:
    """So many nodes, in words."""
    return f"{nodes} node{'' if nodes == 1 else 's'}"


def _first(placed: Sequence[Placed]) -> str:
    """The first of some nodes that failed, and why."""
    one = min(placed, key=_slot)
    return f"{one.standing.name}: {one.why}"


def _unit(one: Placed) -> int:
    return one.standing.wanted.unit if one.standing.wanted else 0


def _slot(one: Placed) -> int:
    return one.standing.wanted.slot if one.standing.wanted else 0
