"""The plan of a Fabric, cut into a slice for each node's RailNode, and the Fabric's rules for roll-outs."""

import hashlib
from collections.abc import Mapping
from functools import cache

import msgspec

from trackbed.cluster.controller.objects import FabricObject
from trackbed.cluster.controller.stage import PlanSlice, RolloutRules, WaveRules
from trackbed.cluster.resources.railnode import API_VERSION
from trackbed.cluster.stacks import MODULES, load_stack
from trackbed.cluster.stacks.refusals import find_refusals
from trackbed.fabric.model.fabric import Fabric as Model
from trackbed.fabric.model.load import build_fabric_from_resource
from trackbed.fabric.model.rollout import FirmwareWave, count_nodes
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.lock import merge_slots
from trackbed.fabric.plan.node_document import to_node_document
from trackbed.fabric.plan.plan import NodePlan, Plan

_MINUTE, _HOUR = 60, 3600
_DIGEST_DIGITS = 16
"""Hexadecimal digits of a plan's digest: 64 bits suffice to tell plans apart."""


class Slices(msgspec.Struct, frozen=True):
    """The newest plan of a Fabric, and its parts by node."""

    plan: Plan
    nodes: Mapping[str, PlanSlice]
    plans: Mapping[str, NodePlan]
    lock: Mapping[str, int]
    """Node -> slot, including the slots that the plan newly assigns."""
    resources: Mapping[str, tuple[str, ...]]
    """Node -> resources of its rails; empty if the Fabric's stack has no resource for each rail."""


def load_model(fabric: FabricObject) -> Model:
    """Return the model of a Fabric object. Raises SpecError."""
    spec = msgspec.json.decode(fabric.spec)
    return build_fabric_from_resource(
        {"apiVersion": API_VERSION, "kind": "Fabric", "metadata": {"name": fabric.metadata.name}, "spec": spec}
    )


def build_slices(model: Model, lock: Mapping[str, int]) -> Slices:
    """Plan every node, with the slots of the lock (node -> slot). Raises SpecError if the Fabric cannot be planned."""
    plan = compute_plan(model, lock)
    plans = {node.name: node for node in plan.nodes}
    slices = {name: _build_slice(node) for name, node in plans.items()}
    lock = merge_slots(lock, {name: node.slot for name, node in slices.items()})
    return Slices(plan, slices, plans, lock, _map_resources(model.spec.kubernetes.stack, plan))


def _map_resources(stack_name: str, plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return node -> resources of its rails, empty without such resources; nodes with the same rails share a tuple."""
    module = load_stack(stack_name) if stack_name in MODULES else None
    if module is None or any(find_refusals(module, plan)):
        return {}
    by_rail = module.access(plan).resources
    if len(by_rail) != len(plan.common.rails):
        return {}
    name_resources = cache(lambda rails: tuple(by_rail[rail][0] for rail in rails))
    return {node.name: name_resources(tuple(port.rail for port in node.ports)) for node in plan.nodes}


def _build_slice(node: NodePlan) -> PlanSlice:
    content = msgspec.json.encode(to_node_document(node))
    return PlanSlice(node.slot, node.unit, hashlib.sha256(content).hexdigest()[:_DIGEST_DIGITS])


def build_rules(fabric: FabricObject, model: Model, node_count: int) -> RolloutRules:
    """Return the rules for roll-outs of a Fabric, with percentages resolved for `node_count` nodes."""
    rollout = model.spec.rollout
    max_unavailable = count_nodes(rollout.max_unavailable, node_count)
    return RolloutRules(
        fabric.metadata.name,
        fabric.metadata.generation,
        max_unavailable=max_unavailable,
        canary=min(rollout.canary, node_count),
        max_failures=count_nodes(rollout.max_failures, node_count),
        max_reboots=rollout.reboots,
        drain_seconds=rollout.drain_minutes * _MINUTE,
        node_seconds=rollout.node_minutes * _MINUTE,
        keep_seconds=rollout.keep_slots_hours * _HOUR,
        firmware=_build_wave_rules(rollout.firmware, max_unavailable, node_count),
        paused=rollout.paused or fabric.metadata.annotations.paused is not None,
        allow_removal=fabric.metadata.annotations.allow_removal == str(fabric.metadata.generation),
    )


def _build_wave_rules(wave: FirmwareWave, max_unavailable: int, node_count: int) -> WaveRules:
    wave_limit = max_unavailable if wave.max_unavailable is None else count_nodes(wave.max_unavailable, node_count)
    return WaveRules(min(wave_limit, max_unavailable), min(wave.canary, node_count), wave.paused)
