"""Fabrics of every stack as reviews know them, and pods in few words."""

from __future__ import annotations

from typing import Any

from tests.cluster.stacks.sites import CX7, HEAD, SITES, alike, ports
from trackbed.cluster.api.response import Object
from trackbed.cluster.stacks import load_stack
from trackbed.cluster.webhook.cluster_state import PlannedFabric
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.plan.compute import compute_plan

RAILS = 4
NO_RAILS = {"bare-metal", "kvm", "nic-configuration"}


def fabric(
    name: str, of: str, rails: int = RAILS, nodes: list[dict[str, Any]] | None = None, **spec: Any
) -> PlannedFabric:
    """A Fabric of that name on a stack, with the site that the stack's own tests have."""
    site = SITES[of]
    document = {
        "nodes": nodes or alike(4, rails),
        "rails": rails,
        **site,
        "otherRanges": {"docker": []},
        "kubernetes": {**site.get("kubernetes", {}), "stack": of},
        **spec,
    }
    return PlannedFabric(
        load_stack(of), compute_plan(Fabric.model_validate(HEAD | {"metadata": {"name": name}, "spec": document}), {})
    )


def every_stack() -> dict[str, PlannedFabric]:
    """A Fabric for each stack, of its name; and one whose nodes have two of its four rails each."""
    addresses: list[str | None] = [*ports(RAILS)]
    halves = [
        {"hosts": "left-[0-1]", "ports": [*addresses[:2], None, None], "nic": CX7},
        {"hosts": "right-[0-1]", "ports": [None, None, *addresses[2:]], "nic": CX7},
    ]
    return {name: fabric(name, name) for name in SITES} | {"halves": fabric("halves", "spiderpool", nodes=halves)}


def pod(namespace: str = "default", annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    """A pod of one container that has GPUs."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "job", "namespace": namespace, "annotations": annotations or {}},
        "spec": {"containers": [container("main", {"nvidia.com/gpu": "8"})], **spec},
    }


def container(name: str, limits: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    """A container with limits."""
    return {"name": name, "image": "i", "resources": {"limits": limits or {}}, **fields}
