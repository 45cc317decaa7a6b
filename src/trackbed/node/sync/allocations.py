"""Which pods of this node have rails: asked of the agent that gives them, told in the RailNode's status.

In batches: pods come and go by the dozen, and nobody waits for this; a starting pod never does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.resources.railnode import API_VERSION, KIND, PATH, Allocation
from trackbed.node.rails.client import read_status

MANAGER = "trackbed-allocations"
SECONDS = 15.0
"""How often the agent is asked; written is only what is another."""
MOST = 256
"""Pods listed: some kubelets run 250."""


async def publish(client: Client, name: str, socket: Path, tell: Callable[[str], None]) -> None:
    """Do it for ever. An agent that does not answer, or is not there, leaves what was told last."""
    told: tuple[Allocation, ...] | None = None
    trouble = ""
    while True:
        before, trouble = trouble, ""
        try:
            found = list_allocations(await asyncio.to_thread(read_status, socket))
            if found != told:
                await _write(client, name, found)
                told = found
        except (OSError, msgspec.MsgspecError, KubeError) as error:
            trouble = f"allocations are not told: {error}"
        if trouble not in {"", before}:
            tell(trouble)
        await asyncio.sleep(SECONDS)


def list_allocations(status: Mapping[str, Any]) -> tuple[Allocation, ...]:
    """Who has what, by what `trackbed agent status` says; the same for the same pods, in whatever order they came."""
    found = [_one(one) for one in status.get("attachments", ()) if one.get("pod") and one.get("done", True)]
    return tuple(sorted(found, key=lambda one: (one.namespace, one.pod))[:MOST])


def _one(attachment: Mapping[str, Any]) -> Allocation:
    namespace, _, pod = attachment["pod"].partition("/")
    ports = sorted(attachment["ports"], key=lambda port: port["rail"])
    addresses = tuple(own["text"].partition("/")[0] for port in ports for own in port.get("addresses", ()))
    return Allocation(namespace, pod, tuple(port["rail"] for port in ports), addresses)


async def _write(client: Client, name: str, found: tuple[Allocation, ...]) -> None:
    one = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}}
    body = {**one, "status": {"allocations": msgspec.to_builtins(found)}}
    await client.apply(f"{PATH}/{name}/status", body, MANAGER)
