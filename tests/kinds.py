"""Trackbed's own kinds on an API server."""

from __future__ import annotations

from collections.abc import Sequence

from trackbed.kube.applyset import ApplySet
from trackbed.kube.client import Client
from trackbed.kube.crds import crds
from trackbed.kube.rollout import Manner, Rollout
from trackbed.stacks.install.steps import Apply
from trackbed.stacks.objects import Manifest
from trackbed.stacks.stack import Wait


def installed(client: Client, found: Sequence[Manifest] | None = None) -> None:
    """Install Fabric and RailNode, or their definitions of another version, and wait until they are served."""
    found = found or list(crds())
    gates = tuple(Wait(f"customresourcedefinition/{one['metadata']['name']}", "condition=Established") for one in found)
    rollout = Rollout(client, ApplySet("crds", "default"), Manner("test", wait_seconds=30), lambda _: None)
    rollout.carry_out([Apply("", "definitions", found, gates)])
