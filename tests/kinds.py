"""Trackbed's own kinds on an API server."""

from __future__ import annotations

from collections.abc import Sequence

from tools.pages.crds import iter_crds
from trackbed.cluster.api.client import Client
from trackbed.cluster.rollout.applyset import ApplySet
from trackbed.cluster.rollout.rollout import Manner, Rollout
from trackbed.cluster.stacks.install.steps import Apply
from trackbed.cluster.stacks.objects import Manifest
from trackbed.cluster.stacks.stack import Wait


def installed(client: Client, found: Sequence[Manifest] | None = None) -> None:
    """Install Fabric and RailNode, or their definitions of another version, and wait until they are served."""
    found = found or list(iter_crds())
    gates = tuple(Wait(f"customresourcedefinition/{one['metadata']['name']}", "condition=Established") for one in found)
    rollout = Rollout(client, ApplySet("crds", "default"), Manner("test", wait_seconds=30), lambda _: None)
    rollout.carry_out([Apply("", "definitions", found, gates)])
