"""What to do next with all nodes of a Fabric, never more at once than it allows: a function of where they stand.

    no more begin while       as many nodes are unavailable, for whatever reason, as may be
                              the canaries are not sound yet
                              more nodes failed than may fail, or a canary did
                              somebody paused it
    order                     one scalable unit after the other, by slot

What has begun always goes on to its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from trackbed.controller.stage import IN_PROGRESS, Rules, Stage, Standing, stage
from trackbed.kube.railnode import PAUSED

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


class Placed(NamedTuple):
    """A node, where it stands, and why."""

    standing: Standing
    stage: Stage
    why: str


class Decision(msgspec.Struct, frozen=True):
    """What to do, and how it stands."""

    moves: tuple[tuple[Verb, str], ...]
    """What to do with which node."""
    placed: tuple[Placed, ...]
    counts: Mapping[Stage, int]
    """Nodes at each stage, those that the Fabric names no more left out."""
    halted: str = ""
    """Why no node begins although some should; empty where that is not so."""


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
    waiting = _turn(placed)
    room, halted = _room(placed, rules, counts) if waiting else (0, "")
    moves += [("begin", one.standing.name) for one in waiting[:room]]
    return Decision(tuple(moves), placed, counts, halted)


def _unguarded(one: Placed) -> bool:
    """Whether a node is being changed, and somebody took its taint away."""
    rail, node = one.standing.rail, one.standing.node
    return bool(rail and node and rail.spec.may_change and not node.begun and one.stage in IN_PROGRESS)


def _turn(placed: Sequence[Placed]) -> list[Placed]:
    """Those that may begin if there is room: of the first unit that has not come to its end."""
    open_ = [one for one in placed if one.stage is Stage.WAITING or one.stage in IN_PROGRESS]
    unit = min((_unit(one) for one in open_), default=0)
    found = [o for o in open_ if o.stage is Stage.WAITING and _unit(o) == unit and not o.standing.unsure]
    return sorted(found, key=_slot)


def _room(placed: Sequence[Placed], rules: Rules, counts: Mapping[Stage, int]) -> tuple[int, str]:
    """How many more nodes may begin, and why none, where it is not for a lack of room."""
    failed = counts[Stage.FAILED]
    proved = sum(one.stage is Stage.SOUND and _changed_with(one) == rules.generation for one in placed)
    if rules.paused:
        return 0, f"paused: rollout.paused, or annotation {PAUSED}"
    if failed > rules.failures:
        return 0, f"{counted(failed)} failed, {rules.failures} may (rollout.maxFailures): {_first(placed)}"
    if failed and proved < rules.canary:
        return 0, f"a canary failed: {_first(placed)}"
    unavailable = [one for one in placed if one.standing.unavailable]
    begun = sum(one.stage in IN_PROGRESS for one in placed)
    room = rules.unavailable - len(unavailable)
    if room <= 0 and not begun:
        return 0, _full(unavailable, rules)
    if proved < rules.canary:
        room = min(room, rules.canary - proved - begun)
    return max(room, 0), ""


def _full(unavailable: Sequence[Placed], rules: Rules) -> str:
    """Why there is no room for any node, and none will be by itself."""
    told = f"{counted(len(unavailable))} unavailable, {rules.unavailable} may be (rollout.maxUnavailable)"
    if not unavailable:
        return told
    one = min(unavailable, key=_slot)
    return f"{told}: {one.standing.name} is {one.stage}{f': {one.why}' if one.why else ''}"


def counted(nodes: int) -> str:
    """So many nodes, in words."""
    return f"{nodes} node{'' if nodes == 1 else 's'}"


def _first(placed: Sequence[Placed]) -> str:
    one = min((one for one in placed if one.stage is Stage.FAILED), key=_slot)
    return f"{one.standing.name}: {one.why}"


def _changed_with(one: Placed) -> int:
    return one.standing.rail.spec.changed_generation if one.standing.rail else 0


def _unit(one: Placed) -> int:
    return one.standing.wanted.unit if one.standing.wanted else 0


def _slot(one: Placed) -> int:
    return one.standing.wanted.slot if one.standing.wanted else 0
