"""Content of status updates: conditions Rolled and RailsOffered of each RailNode, and the status of the Fabric."""

from collections.abc import Mapping
from typing import Any

import msgspec

from trackbed.cluster.controller.decide import Decision, StagedNode, format_node_count
from trackbed.cluster.controller.objects import FabricObject
from trackbed.cluster.controller.stage import IN_PROGRESS, NodeSnapshot, RolloutRules, Stage
from trackbed.cluster.resources.conditions import Condition, Status, find_condition, put_condition
from trackbed.cluster.resources.fabric import FabricStatus
from trackbed.cluster.resources.railnode import API_VERSION, KIND, OFFERED, ROLLED

ACCEPTED, PROGRESSING, READY = "Accepted", "Progressing", "Ready"
_UNREPORTED_STAGES = frozenset(
    {Stage.NEW, Stage.OUTDATED, Stage.CHECKING, Stage.FINISHING, Stage.RETRYING, Stage.LEAVING, Stage.GONE, Stage.TAKEN}
)
"""Stages that are too short to be reported, and the stage of a RailNode of another Fabric."""
_LASTING_STAGES = frozenset({Stage.CHECKING, Stage.OUTDATED})
"""Stages of `_UNREPORTED_STAGES` that last while an agent does not respond; RailsOffered is still reported for them."""
_CONDITIONS = frozenset({ROLLED, OFFERED})
_STAGE_REASONS: Mapping[Stage, str] = {Stage.NEEDS_REBOOT: Stage.REBOOTING}
"""Stage -> reason of condition Rolled, where it is not the name of the stage."""
_MAX_MESSAGE_CHARACTERS = 1024


def build_railnode_status(
    node: StagedNode, pods: tuple[str, ...], resources: tuple[str, ...], now: str
) -> dict[str, Any] | None:
    """Return the RailNode with the status to apply; None if it is up to date, or the stage is not reported.

    `pods` are the remaining pods of a node that is drained, `resources` the resources of the node's rails.
    """
    railnode = node.snapshot.railnode
    if railnode is None:
        return None
    old = tuple(condition for condition in railnode.status.conditions if condition.type in _CONDITIONS)
    if node.stage in _UNREPORTED_STAGES and (node.stage not in _LASTING_STAGES or len(old) < len(_CONDITIONS)):
        return None
    offered = build_offered_condition(node.snapshot, resources)
    rolled = find_condition(old, ROLLED) if node.stage in _UNREPORTED_STAGES else _build_rolled_condition(node, pods)
    new = tuple(
        _set_transition_time(find_condition(old, condition.type), condition, now)
        for condition in (rolled, offered)
        if condition is not None
    )
    if set(new) == set(old):
        return None
    kind = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": node.snapshot.name}}
    return {**kind, "status": {"conditions": msgspec.to_builtins(new)}}


def build_offered_condition(snapshot: NodeSnapshot, resources: tuple[str, ...]) -> Condition | None:
    """Return condition RailsOffered of a node; None if it has no Node, or the stack no resource for each rail."""
    if snapshot.node is None or not resources:
        return None
    offered, count = snapshot.node.resources, len(resources)
    lacking = [name for name in resources if name not in offered]
    if not lacking:
        return Condition(OFFERED, "True", "Offered", f"{count} of {count} rails")
    others = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
    message = f"{count - len(lacking)} of {count} rails: the node's allocatable has no {lacking[0]}{others}"
    return Condition(OFFERED, "False", "NotOffered", message)


def _build_rolled_condition(node: StagedNode, pods: tuple[str, ...]) -> Condition:
    status: Status = "True" if node.stage is Stage.SOUND else "False"
    message = node.message
    if node.stage is Stage.DRAINING and pods:
        message = f"{len(pods)} pod{'s' if len(pods) > 1 else ''} left: {pods[0]}"
    return Condition(ROLLED, status, _STAGE_REASONS.get(node.stage, node.stage), message[:_MAX_MESSAGE_CHARACTERS])


def _set_transition_time(old: Condition, new: Condition, now: str) -> Condition:
    """Return the new condition with its transition time: that of the old condition if the status is unchanged."""
    return put_condition([old] if old.last_transition_time else [], new, now)[-1]


def has_new_stage(node: StagedNode) -> bool:
    """Return whether the stage of a node differs from the last report in its RailNode."""
    railnode = node.snapshot.railnode
    return railnode is not None and find_condition(railnode.status.conditions, ROLLED).reason != _STAGE_REASONS.get(
        node.stage, node.stage
    )


def build_fabric_status(
    fabric: FabricObject, decision: Decision, rules: RolloutRules, resources: Mapping[str, tuple[str, ...]], now: str
) -> FabricStatus:
    """Return the status of a Fabric; `resources` maps nodes to the resources of their rails."""
    counts = decision.counts
    total = sum(counts.values())
    sound, absent, failed = counts.get(Stage.SOUND, 0), counts.get(Stage.ABSENT, 0), len(_select_failed_nodes(decision))
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
        _count_offering_nodes(decision, resources) if resources else msgspec.UNSET,
        good,
        _build_conditions(fabric, _build_progressing_condition(decision, done=done), done=done, now=now),
    )


def build_refused_status(fabric: FabricObject, reason: str, now: str) -> FabricStatus:
    """Return the status of a Fabric that cannot be planned; its earlier progress is kept."""
    refused = Condition(ACCEPTED, "False", "Invalid", reason[:_MAX_MESSAGE_CHARACTERS], "", fabric.metadata.generation)
    conditions = put_condition(fabric.status.conditions, refused, now)
    return msgspec.structs.replace(fabric.status, conditions=conditions)


def _count_offering_nodes(decision: Decision, resources: Mapping[str, tuple[str, ...]]) -> int:
    conditions = (
        build_offered_condition(node.snapshot, resources.get(node.snapshot.name, ())) for node in decision.nodes
    )
    return sum(condition is not None and condition.status == "True" for condition in conditions)


def _select_failed_nodes(decision: Decision) -> list[StagedNode]:
    return [node for node in decision.nodes if node.stage in {Stage.FAILED, Stage.TAKEN}]


def _build_progressing_condition(decision: Decision, *, done: bool) -> Condition:
    if done:
        return Condition(PROGRESSING, "False", "Complete")
    if decision.halt_reason:
        reason = "Paused" if decision.paused else "Halted"
        return Condition(PROGRESSING, "False", reason, decision.halt_reason[:_MAX_MESSAGE_CHARACTERS])
    failed = _select_failed_nodes(decision)
    unfinished = sum(decision.counts.values()) - len(failed) - decision.counts.get(Stage.SOUND, 0)
    if failed and unfinished == decision.counts.get(Stage.ABSENT, 0):
        message = f"{format_node_count(len(failed))} failed: {failed[0].snapshot.name}: {failed[0].message}"
        return Condition(PROGRESSING, "False", "Failed", message[:_MAX_MESSAGE_CHARACTERS])
    return Condition(PROGRESSING, "True", "Rolling", decision.wave_progress)


def _build_conditions(fabric: FabricObject, progress: Condition, *, done: bool, now: str) -> tuple[Condition, ...]:
    generation = fabric.metadata.generation
    accepted = Condition(ACCEPTED, "True", "Planned", "", "", generation)
    ready = (
        Condition(READY, "True", "AllSound") if done else Condition(READY, "False", progress.reason, progress.message)
    )
    conditions = fabric.status.conditions
    for condition in (accepted, progress, ready):
        conditions = put_condition(conditions, msgspec.structs.replace(condition, observed_generation=generation), now)
    return conditions
