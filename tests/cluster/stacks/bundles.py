"""Bundles to look at: the host device stack's, for a few nodes with two rails."""

from __future__ import annotations

from typing import Any

from tests.cluster.stacks.fabrics import site as fabric
from tests.cluster.stacks.sites import POINT_TO_POINT, alike
from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.install.bundle import render_bundle
from trackbed.cluster.stacks.stack import Stack
from trackbed.fabric.plan.plan import Plan

HOSTDEVICE = load_stack("network-operator-hostdevice")
LABEL = "trackbed.dev/fabric=train"


def site(nodes: int = 2, **kubernetes: Any) -> Plan:
    """A plan that the host device stack takes."""
    return fabric(alike(nodes, 2), 2, addressing=POINT_TO_POINT, kubernetes=kubernetes)


def files(stack_: Stack, planned: Plan) -> dict[str, str]:
    """Name and text of each file of a bundle."""
    return {name: "".join(chunks) for name, chunks in render_bundle(stack_, planned)}
