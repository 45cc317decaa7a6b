"""The plan of every node of a Fabric, as slices that RailNodes carry, and the Fabric's rules for roll-outs."""

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from trackbed.cluster.controller.objects import FabricObject
from trackbed.cluster.controller.stage import Rules, Slice, WaveRules
from trackbed.cluster.resources.railnode import API_VERSION
from trackbed.cluster.stacks import MODULES, stack
from trackbed.cluster.stacks.refusals import refusals
from trackbed.fabric.model.fabric import Fabric as Model
from trackbed.fabric.model.load import build_fabric_from_resource
from trackbed.fabric.model.rollout import FirmwareWave, count_nodes
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.lock import merge_slots
from trackbed.fabric.plan.plan import NodePlan, Plan
from trackbed.fabric.plan.wire import to_node_document

_MINUTE, _HOUR = 60, 3600
_DIGEST_DIGITS = 16
"""Hexadecimal digits of a digest: 64 bits distinguish plans; they protect nothing."""


class Slices(msgspec.Struct, frozen=True):
    """The newest plan, by node."""

    plan: Plan
    nodes: Mapping[str, Slice]
    plans: Mapping[str, NodePlan]
    lock: Mapping[str, int]
    """The lock after this plan."""
    resources: Mapping[str, tuple[str, ...]]
    """Node -> the resources of its rails; empty where the Fabric's stack has no resource for each rail."""

    def render_document(self, name: str) -> dict[str, Any]:
        """Return a node's slice of the plan, as in /etc/trackbed/node.json."""
        return to_node_document(self.plans[name])


def load_model(fabric: FabricObject) -> Model:
    """Build the model of a Fabric. Raises SpecError."""
    spec = msgspec.json.decode(fabric.spec)
    return build_fabric_from_resource(
        {"apiVersion": API_VERSION, "kind": "Fabric", "metadata": {"name": fabric.metadata.name}, "spec": spec}
    )


def build_slices(model: Model, lock: Mapping[str, int]) -> Slices:
    """Plan every node. Raises SpecError where the Fabric cannot be planned."""
    plan = compute_plan(model, lock)
    plans = {node.name: node for node in plan.nodes}
    slices = {name: _build_slice(node) for name, node in plans.items()}
    lock = merge_slots(lock, {name: node.slot for name, node in slices.items()})
    return Slices(plan, slices, plans, lock, _map_resources(model.spec.kubernetes.stack, plan))


def _map_resources(name: str, plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return the resources of each node's rails; nodes with the same rails share one tuple."""
    module = stack(name) if name in MODULES else None
    if module is None or any(refusals(module, plan)):
        return {}
    by_rail = module.access(plan).resources
    if len(by_rail) != len(plan.common.rails):
        return {}
    name_resources = cache(lambda rails: tuple(by_rail[rail][0] for rail in rails))
    return {node.name: name_resources(tuple(port.rail for port in node.ports)) for node in plan.nodes}


def _build_slice(node: NodePlan) -> Slice:
    content = msgspec.json.encode(to_node_document(node))
    return Slice(node.slot, node.unit, hashlib.sha256(content).hexdigest()[:_DIGEST_DIGITS])


def build_rules(fabric: FabricObject, model: Model, nodes: int) -> Rules:
    """Return the rules for roll-outs of a Fabric, with percentages of its number of nodes resolved."""
    rollout = model.spec.rollout
    max_unavailable = count_nodes(rollout.max_unavailable, nodes)
    return Rules(
        fabric.metadata.name,
        fabric.metadata.generation,
        max_unavailable=max_unavailable,
        canary=min(rollout.canary, nodes),
        max_failures=count_nodes(rollout.max_failures, nodes),
        max_reboots=rollout.reboots,
        drain_seconds=rollout.drain_minutes * _MINUTE,
        node_seconds=rollout.node_minutes * _MINUTE,
        keep_seconds=rollout.keep_slots_hours * _HOUR,
        firmware=_build_wave_rules(rollout.firmware, max_unavailable, nodes),
        paused=rollout.paused or fabric.metadata.annotations.paused is not None,
    )


def _build_wave_rules(wave: FirmwareWave, max_unavailable: int, nodes: int) -> WaveRules:
    wave_limit = max_unavailable if wave.max_unavailable is None else count_nodes(wave.max_unavailable, nodes)
    return WaveRules(min(wave_limit, max_unavailable), min(wave.canary, nodes), wave.paused)
