"""The plan of every node of a Fabric, as slices that RailNodes carry, and what the Fabric says about roll-outs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from trackbed.cluster.controller.objects import FabricObject
from trackbed.cluster.controller.stage import Rules, Slice, Wave
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
_DIGEST = 16
"""Hexadecimal digits of a digest: 64 bits tell plans apart, they are no secret."""


class Slices(msgspec.Struct, frozen=True):
    """What the newest plan has for every node."""

    plan: Plan
    nodes: Mapping[str, Slice]
    plans: Mapping[str, NodePlan]
    lock: Mapping[str, int]
    """The lock after this plan."""
    resources: Mapping[str, tuple[str, ...]]
    """Node -> the resources of its rails; empty where the Fabric's stack has no resource for each rail."""

    def document(self, name: str) -> dict[str, Any]:
        """A node's slice of the plan, as in /etc/trackbed/node.json."""
        return to_node_document(self.plans[name])


def model_of(fabric: FabricObject) -> Model:
    """The Fabric as a model. Raises SpecError."""
    spec = msgspec.json.decode(fabric.spec)
    return build_fabric_from_resource(
        {"apiVersion": API_VERSION, "kind": "Fabric", "metadata": {"name": fabric.metadata.name}, "spec": spec}
    )


def slices(model: Model, lock: Mapping[str, int]) -> Slices:
    """Plan every node. Raises SpecError where the Fabric cannot be planned."""
    planned = compute_plan(model, lock)
    plans = {node.name: node for node in planned.nodes}
    found = {name: _slice(node) for name, node in plans.items()}
    lock = merge_slots(lock, {name: one.slot for name, one in found.items()})
    return Slices(planned, found, plans, lock, _resources(model.spec.kubernetes.stack, planned))


def _resources(name: str, planned: Plan) -> dict[str, tuple[str, ...]]:
    """Nodes that are alike share their value."""
    one = stack(name) if name in MODULES else None
    if one is None or any(refusals(one, planned)):
        return {}
    by_rail = one.access(planned).resources
    if len(by_rail) != len(planned.common.rails):
        return {}
    named = cache(lambda rails: tuple(by_rail[rail][0] for rail in rails))
    return {node.name: named(tuple(port.rail for port in node.ports)) for node in planned.nodes}


def _slice(node: NodePlan) -> Slice:
    content = msgspec.json.encode(to_node_document(node))
    return Slice(node.slot, node.unit, hashlib.sha256(content).hexdigest()[:_DIGEST])


def rules(fabric: FabricObject, model: Model, nodes: int) -> Rules:
    """What a Fabric of so many nodes says about roll-outs."""
    told = model.spec.rollout
    unavailable = count_nodes(told.max_unavailable, nodes)
    return Rules(
        fabric.metadata.name,
        fabric.metadata.generation,
        unavailable=unavailable,
        canary=min(told.canary, nodes),
        failures=count_nodes(told.max_failures, nodes),
        reboots=told.reboots,
        drain_seconds=told.drain_minutes * _MINUTE,
        node_seconds=told.node_minutes * _MINUTE,
        keep_seconds=told.keep_slots_hours * _HOUR,
        firmware=_wave(told.firmware, unavailable, nodes),
        paused=told.paused or fabric.metadata.annotations.paused is not None,
    )


def _wave(told: FirmwareWave, unavailable: int, nodes: int) -> Wave:
    own = unavailable if told.max_unavailable is None else count_nodes(told.max_unavailable, nodes)
    return Wave(min(own, unavailable), min(told.canary, nodes), told.paused)
