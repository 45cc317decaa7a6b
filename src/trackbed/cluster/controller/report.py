"""Status of objects: conditions Rolled and RailsOffered of each RailNode, the status of the Fabric. Pure functions."""

from collections.abc import Mapping
from typing import Any

import msgspec

from trackbed.cluster.controller.decide import Decision, StagedNode, format_count
from trackbed.cluster.controller.objects import FabricObject
from trackbed.cluster.controller.stage import IN_PROGRESS, Rules, Stage, Standing
from trackbed.cluster.resources.conditions import Condition, Status, find, put
from trackbed.cluster.resources.fabric import FabricStatus
from trackbed.cluster.resources.railnode import API_VERSION, KIND, OFFERED, ROLLED

ACCEPTED, PROGRESSING, READY = "Accepted", "Progressing", "Ready"
_UNREPORTED = frozenset(
    {Stage.NEW, Stage.OUTDATED, Stage.CHECKING, Stage.FINISHING, Stage.RETRYING, Stage.LEAVING, Stage.GONE, Stage.TAKEN}
)
"""Stages too short to be reported, and the stage of a RailNode of another Fabric."""
_LASTING = frozenset({Stage.CHECKING, Stage.OUTDATED})
"""Stages of `_UNREPORTED` that last while an agent does not respond; condition RailsOffered is kept up to date."""
_CONDITIONS = frozenset({ROLLED, OFFERED})
_TITLES: Mapping[Stage, str] = {Stage.NEEDS_REBOOT: Stage.REBOOTING}
_LONGEST_MESSAGE = 1024


def build_railnode_status(
    node: StagedNode, pods: tuple[str, ...], resources: tuple[str, ...], now: str
) -> dict[str, Any] | None:
    """Return the RailNode's status to apply; None where it is up to date, or the stage is too short to be reported.

    `pods` are those that must still leave, `resources` those of the node's rails.
    """
    railnode = node.standing.railnode
    if railnode is None:
        return None
    old = tuple(condition for condition in railnode.status.conditions if condition.type in _CONDITIONS)
    if node.stage in _UNREPORTED and (node.stage not in _LASTING or len(old) < len(_CONDITIONS)):
        return None
    offered = check_offered(node.standing, resources)
    rolled = find(old, ROLLED) if node.stage in _UNREPORTED else _build_rolled(node, pods)
    new = tuple(
        _keep_transition(find(old, condition.type), condition, now)
        for condition in (rolled, offered)
        if condition is not None
    )
    if sorted(new, key=_get_type) == sorted(old, key=_get_type):
        return None
    kind = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": node.standing.name}}
    return {**kind, "status": {"conditions": msgspec.to_builtins(new)}}


def check_offered(standing: Standing, resources: tuple[str, ...]) -> Condition | None:
    """Return condition RailsOffered of a node; None where it has no Node, or no resource for each rail."""
    if standing.node is None or not resources:
        return None
    offered, count = standing.node.resources, len(resources)
    lacking = [name for name in resources if name not in offered]
    if not lacking:
        return Condition(OFFERED, "True", "Offered", f"{count} of {count} rails")
    others = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
    message = f"{count - len(lacking)} of {count} rails: the node's allocatable has no {lacking[0]}{others}"
    return Condition(OFFERED, "False", "NotOffered", message)


def _build_rolled(node: StagedNode, pods: tuple[str, ...]) -> Condition:
    status: Status = "True" if node.stage is Stage.SOUND else "False"
    message = node.message
    if node.stage is Stage.DRAINING and pods:
        message = f"{len(pods)} pod{'s' if len(pods) > 1 else ''} left: {pods[0]}"
    return Condition(ROLLED, status, _TITLES.get(node.stage, node.stage), message[:_LONGEST_MESSAGE])


def _keep_transition(old: Condition, new: Condition, now: str) -> Condition:
    """Return the new condition, with the transition time of the old if its status is unchanged."""
    return put([old] if old.last_transition_time else [], new, now)[-1]


def _get_type(condition: Condition) -> str:
    return condition.type


def has_new_stage(node: StagedNode) -> bool:
    """Return whether a RailNode does not report its stage yet."""
    railnode = node.standing.railnode
    return railnode is not None and find(railnode.status.conditions, ROLLED).reason != _TITLES.get(
        node.stage, node.stage
    )


def build_fabric_status(
    fabric: FabricObject, decision: Decision, rules: Rules, resources: Mapping[str, tuple[str, ...]], now: str
) -> FabricStatus:
    """Return the status of a Fabric that is rolled out; `resources` are those of each node's rails."""
    counts = decision.counts
    total = sum(counts.values())
    sound, absent, failed = counts.get(Stage.SOUND, 0), counts.get(Stage.ABSENT, 0), len(_select_failed(decision))
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
        _count_offering(decision, resources) if resources else msgspec.UNSET,
        good,
        _build_conditions(fabric, _build_progress(decision, done=done), done=done, now=now),
    )


def build_refused_status(fabric: FabricObject, reason: str, now: str) -> FabricStatus:
    """Return the status of a Fabric that cannot be planned; its earlier progress is kept."""
    refused = Condition(ACCEPTED, "False", "Invalid", reason[:_LONGEST_MESSAGE], "", fabric.metadata.generation)
    conditions = put(fabric.status.conditions, refused, now)
    return msgspec.structs.replace(fabric.status, conditions=conditions)


def _count_offering(decision: Decision, resources: Mapping[str, tuple[str, ...]]) -> int:
    conditions = (check_offered(node.standing, resources.get(node.standing.name, ())) for node in decision.nodes)
    return sum(condition is not None and condition.status == "True" for condition in conditions)


def _select_failed(decision: Decision) -> list[StagedNode]:
    return [node for node in decision.nodes if node.stage in {Stage.FAILED, Stage.TAKEN}]


def _build_progress(decision: Decision, *, done: bool) -> Condition:
    if done:
        return Condition(PROGRESSING, "False", "Complete")
    if decision.halt_reason:
        reason = "Paused" if decision.paused else "Halted"
        return Condition(PROGRESSING, "False", reason, decision.halt_reason[:_LONGEST_MESSAGE])
    failed = _select_failed(decision)
    unfinished = sum(decision.counts.values()) - len(failed) - decision.counts.get(Stage.SOUND, 0)
    if failed and unfinished == decision.counts.get(Stage.ABSENT, 0):
        message = f"{format_count(len(failed))} failed: {failed[0].standing.name}: {failed[0].message}"
        return Condition(PROGRESSING, "False", "Failed", message[:_LONGEST_MESSAGE])
    return Condition(PROGRESSING, "True", "Rolling", decision.wave_progress)


def _build_conditions(fabric: FabricObject, progress: Condition, *, done: bool, now: str) -> tuple[Condition, ...]:
    generation = fabric.metadata.generation
    accepted = Condition(ACCEPTED, "True", "Planned", "", "", generation)
    ready = (
        Condition(READY, "True", "AllSound") if done else Condition(READY, "False", progress.reason, progress.message)
    )
    conditions = fabric.status.conditions
    for condition in (accepted, progress, ready):
        conditions = put(conditions, msgspec.structs.replace(condition, observed_generation=generation), now)
    return conditions
