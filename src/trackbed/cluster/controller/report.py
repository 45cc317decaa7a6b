"""What objects are told: conditions Rolled and RailsOffered of each RailNode, the status of the Fabric. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from trackbed.cluster.controller.decide import Decision, Placed, counted
from trackbed.cluster.controller.objects import FabricObject
from trackbed.cluster.controller.stage import IN_PROGRESS, Rules, Stage, Standing
from trackbed.cluster.resources.conditions import Condition, Status, find, put
from trackbed.cluster.resources.fabric import FabricStatus
from trackbed.cluster.resources.railnode import API_VERSION, KIND, OFFERED, ROLLED

ACCEPTED, PROGRESSING, READY = "Accepted", "Progressing", "Ready"
_UNTOLD = frozenset(
    {Stage.NEW, Stage.OUTDATED, Stage.CHECKING, Stage.FINISHING, Stage.RETRYING, Stage.LEAVING, Stage.GONE, Stage.TAKEN}
)
"""Stages that last for a moment, so nobody could read of them in time; and one of a RailNode that is another's."""
_LASTING = frozenset({Stage.CHECKING, Stage.OUTDATED})
"""Those of them that last while an agent does not answer; what was said of rails before may be wrong by then."""
_OURS = frozenset({ROLLED, OFFERED})
_TITLES: Mapping[Stage, str] = {Stage.NEEDS_REBOOT: Stage.REBOOTING}
_LONGEST_MESSAGE = 1024


def told(one: Placed, left: tuple[str, ...], resources: tuple[str, ...], now: str) -> dict[str, Any] | None:
    """The RailNode's status to apply; None where it says so already, or the stage lasts for a moment only.

    `left` are pods that must leave, `resources` those of the node's rails.
    """
    rail = one.standing.rail
    if rail is None:
        return None
    old = tuple(c for c in rail.status.conditions if c.type in _OURS)
    if one.stage in _UNTOLD and (one.stage not in _LASTING or len(old) < len(_OURS)):
        return None
    rails = offered(one.standing, resources)
    rolled = find(old, ROLLED) if one.stage in _UNTOLD else _rolled(one, left)
    new = tuple(_since(find(old, c.type), c, now) for c in (rolled, rails) if c is not None)
    if sorted(new, key=_type) == sorted(old, key=_type):
        return None
    kind = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": one.standing.name}}
    return {**kind, "status": {"conditions": msgspec.to_builtins(new)}}


def offered(one: Standing, resources: tuple[str, ...]) -> Condition | None:
    """Whether a node offers the resources of its rails; None where there is no node, or no resource for each rail."""
    if one.node is None or not resources:
        return None
    offers, count = one.node.offers, len(resources)
    lacking = [name for name in resources if name not in offers]
    if not lacking:
        return Condition(OFFERED, "True", "Offered", f"{count} of {count} rails")
    more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
    said = f"{count - len(lacking)} of {count} rails: the node's allocatable has no {lacking[0]}{more}"
    return Condition(OFFERED, "False", "NotOffered", said)


def _rolled(one: Placed, left: tuple[str, ...]) -> Condition:
    status: Status = "True" if one.stage is Stage.SOUND else "False"
    why = _left(left) if one.stage is Stage.DRAINING and left else one.why
    return Condition(ROLLED, status, _TITLES.get(one.stage, one.stage), why[:_LONGEST_MESSAGE])


def _since(old: Condition, new: Condition, now: str) -> Condition:
    return put([old] if old.last_transition_time else [], new, now)[-1]


def _type(one: Condition) -> str:
    return one.type


def is_news(one: Placed) -> bool:
    """Whether a RailNode does not say yet at which stage it is."""
    rail = one.standing.rail
    return rail is not None and find(rail.status.conditions, ROLLED).reason != _TITLES.get(one.stage, one.stage)


def _left(pods: tuple[str, ...]) -> str:
    return f"{len(pods)} pod{'s' if len(pods) > 1 else ''} left: {pods[0]}"


def fabric_status(
    fabric: FabricObject, decision: Decision, rules: Rules, resources: Mapping[str, tuple[str, ...]], now: str
) -> FabricStatus:
    """The status of a Fabric that is carried out; `resources` are those of each node's rails."""
    counts = decision.counts
    total = sum(counts.values())
    sound, absent, failed = counts.get(Stage.SOUND, 0), counts.get(Stage.ABSENT, 0), len(_failures(decision))
    changing = sum(counts.get(stage, 0) for stage in IN_PROGRESS)
    done = sound + absent == total
    good = rules.generation if done and sound and not fabric.rolled_back else fabric.status.good_generation
    return FabricStatus(
        rules.generation,
        total,
        sound,
        changing,
        total - sound - absent - failed - changing,
        failed,
        absent,
        _offering(decision, resources) if resources else msgspec.UNSET,
        good,
        _conditions(fabric, _progress(decision, done=done), done=done, now=now),
    )


def refused(fabric: FabricObject, why: str, now: str) -> FabricStatus:
    """The status of a Fabric that cannot be carried out; what was carried out before stays."""
    new = Condition(ACCEPTED, "False", "Invalid", why[:_LONGEST_MESSAGE], "", fabric.metadata.generation)
    conditions = put(fabric.status.conditions, new, now)
    return msgspec.structs.replace(fabric.status, conditions=conditions)


def _offering(decision: Decision, resources: Mapping[str, tuple[str, ...]]) -> int:
    rails = (offered(one.standing, resources.get(one.standing.name, ())) for one in decision.placed)
    return sum(one is not None and one.status == "True" for one in rails)


def _failures(decision: Decision) -> list[Placed]:
    return [one for one in decision.placed if one.stage in {Stage.FAILED, Stage.TAKEN}]


def _progress(decision: Decision, *, done: bool) -> Condition:
    if done:
        return Condition(PROGRESSING, "False", "Complete")
    if decision.halted:
        reason = "Paused" if decision.paused else "Halted"
        return Condition(PROGRESSING, "False", reason, decision.halted[:_LONGEST_MESSAGE])
    failed = _failures(decision)
    rest = sum(decision.counts.values()) - len(failed) - decision.counts.get(Stage.SOUND, 0)
    if failed and rest == decision.counts.get(Stage.ABSENT, 0):
        told = f"{counted(len(failed))} failed: {failed[0].standing.name}: {failed[0].why}"
        return Condition(PROGRESSING, "False", "Failed", told[:_LONGEST_MESSAGE])
    return Condition(PROGRESSING, "True", "Rolling", decision.wave)


def _conditions(fabric: FabricObject, progress: Condition, *, done: bool, now: str) -> tuple[Condition, ...]:
    generation = fabric.metadata.generation
    accepted = Condition(ACCEPTED, "True", "Planned", "", "", generation)
    ready = (
        Condition(READY, "True", "AllSound") if done else Condition(READY, "False", progress.reason, progress.message)
    )
    found = fabric.status.conditions
    for one in (accepted, progress, ready):
        found = put(found, msgspec.structs.replace(one, observed_generation=generation), now)
    return found
