"""Trackbed's own kinds on an API server."""

from __future__ import annotations

from collections.abc import Sequence

from trackbed_lab.kubernetes.blocking import BlockingClient

from tools.pages.crds import iter_crds
from trackbed.cluster.rollout.applyset import ApplySet
from trackbed.cluster.rollout.options import RunOptions
from trackbed.cluster.rollout.stack_run import StackRun
from trackbed.cluster.stacks.install.steps import ApplyFile
from trackbed.cluster.stacks.objects import Manifest
from trackbed.cluster.stacks.stack import Wait


def installed(client: BlockingClient, manifests: Sequence[Manifest] | None = None) -> None:
    """Install Fabric and RailNode, or their definitions of another version, and wait until they are served."""
    manifests = manifests or list(iter_crds())
    gates = tuple(
        Wait(f"customresourcedefinition/{manifest['metadata']['name']}", "condition=Established")
        for manifest in manifests
    )
    options = RunOptions("test", wait_seconds=30)
    run = StackRun(client.dynamic, ApplySet("crds", "default"), options, lambda _: None)
    client.run(run.apply_steps([ApplyFile("", "definitions", manifests, gates)]))
