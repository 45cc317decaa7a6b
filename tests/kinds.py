"""Trackbed's own kinds on an API server."""

from __future__ import annotations

from trackbed.kube.applyset import ApplySet
from trackbed.kube.client import Client
from trackbed.kube.crds import crds
from trackbed.kube.rollout import Manner, Rollout
from trackbed.stacks.install.steps import Apply
from trackbed.stacks.stack import Wait


def installed(client: Client) -> None:
    """Install Fabric and RailNode, and wait until they are served."""
    found = list(crds())
    gates = tuple(Wait(f"customresourcedefinition/{one['metadata']['name']}", "condition=Established") for one in found)
    rollout = Rollout(client, ApplySet("crds", "default"), Manner("test", wait_seconds=30), lambda _: None)
    rollout.carry_out([Apply("", "definitions", found, gates)])
