"""Plans of Fabrics in few words, and the objects that a stack makes of them."""

from __future__ import annotations

from typing import Any

from tests.cluster.stacks.sites import HEAD, alike
from trackbed.cluster.stacks.objects import Manifest
from trackbed.cluster.stacks.stack import Stack, iter_objects
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import Plan


def carried(**spec: Any) -> Plan:
    """The plan of a Fabric with this spec; 2 equal nodes and 2 rails unless it says otherwise."""
    rails = spec.get("rails", 2)
    document = {"rails": rails, "nodes": alike(2, rails), "otherRanges": {"docker": []}} | spec
    return compute_plan(Fabric.model_validate(HEAD | {"spec": document}), {})


def of_kind(stack: Stack, of: Plan, kind: str) -> dict[str, Manifest]:
    """The objects of one kind by name."""
    return {manifest["metadata"]["name"]: manifest for manifest in iter_objects(stack, of) if manifest["kind"] == kind}


def refused(stack: Stack, of: Plan) -> list[str]:
    """Code and message of each refusal."""
    return [f"{problem.code}: {problem.message}" for problem in stack.refusals(of)]
