"""A plan of any Fabric, for stacks that take several shapes of them."""

from __future__ import annotations

from typing import Any

from tests.cluster.stacks.sites import HEAD, SHARED
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import Plan


def site(nodes: Any, rails: Any = 8, **fields: Any) -> Plan:
    """The plan of a routed flat fabric, or of what `fields` of the Fabric's spec say."""
    spec = {"nodes": nodes, "rails": rails, "addressing": SHARED, "otherRanges": {"docker": []}} | fields
    return compute_plan(Fabric.model_validate(HEAD | {"spec": spec}), {})
