"""A plan from the few words that a test of a stack cares about."""

from __future__ import annotations

from typing import Any

from tests.cluster.stacks.sites import HEAD, alike
from trackbed.cluster.stacks.objects import Manifest
from trackbed.cluster.stacks.stack import Stack, iter_objects
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import Plan

SHARED: dict[str, Any] = {"scheme": "shared-subnet", "ipv4": "10.0.0.0/12", "gateway": "last"}
FLAT: dict[str, Any] = {"scheme": "shared-subnet", "ipv4": "10.0.0.0/12"}
DUAL: dict[str, Any] = SHARED | {"ipv6": "fd00:10::/32"}
ROUTED: dict[str, Any] = {"scheme": "node-subnet", "ipv4": "10.0.0.0/12"}
DIRECT: dict[str, Any] = {"scheme": "point-to-point", "ipv4": "10.0.0.0/12"}
NONE: dict[str, Any] = {"scheme": "none"}


def fabric(rails: int = 2, nodes: int | list[dict[str, Any]] = 2, **spec: Any) -> Plan:
    """The plan of a Fabric with so many rails; nodes are a count of equal ones, or groups; the rest as written."""
    groups = alike(nodes, rails) if isinstance(nodes, int) else nodes
    written = {"nodes": groups, "rails": rails, "otherRanges": {"docker": []}, **spec}
    return compute_plan(Fabric.model_validate(HEAD | {"spec": written}), {})


def named(prefix: str, hosts: str) -> dict[str, Any]:
    """A group of nodes with two ports that are known by name only."""
    return {"hosts": hosts, "ports": [f"{prefix}0", f"{prefix}1"]}


def of_kind(stack: Stack, planned: Plan, kind: str) -> list[Manifest]:
    """The objects of one kind, in order."""
    return [manifest for manifest in iter_objects(stack, planned) if manifest["kind"] == kind]


def one(stack: Stack, planned: Plan, kind: str) -> Manifest:
    """The first object of a kind."""
    return of_kind(stack, planned, kind)[0]


def problems(stack: Stack, planned: Plan) -> list[str]:
    """Why a plan is refused: the messages with their codes."""
    return [str(problem) for problem in stack.refusals(planned)]
