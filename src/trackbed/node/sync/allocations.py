"""The pods of this node that have rails: read from the rails' agent, written to the RailNode's status.

Updates are batched, because many pods start and end together. The start of a pod does not wait for them.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.api.paths import join_path
from trackbed.cluster.resources.railnode import API_VERSION, KIND, PATH, Allocation
from trackbed.node.rails.client import read_status

MANAGER = "trackbed-allocations"
SECONDS = 15.0
"""Interval between reads of the agent's status; only changes are written."""
MAX_ALLOCATIONS = 256
"""Maximum number of allocations in a status; some kubelets run 250 pods."""


async def publish_allocations(
    client: Client, node_name: str, agent_socket: Path, report: Callable[[str], None]
) -> None:
    """Publish allocations until cancelled. While the agent does not answer, the last published allocations are kept."""
    published: tuple[Allocation, ...] | None = None
    reported = ""
    while True:
        trouble = ""
        try:
            allocations = list_allocations(await asyncio.to_thread(read_status, agent_socket))
            if allocations != published:
                await _write_allocations(client, node_name, allocations)
                published = allocations
        except (OSError, KubeError) as error:
            trouble = f"allocations are not published: {error}"
        if trouble not in {"", reported}:
            report(trouble)
        reported = trouble
        await asyncio.sleep(SECONDS)


def list_allocations(status: Mapping[str, Any]) -> tuple[Allocation, ...]:
    """Return the first MAX_ALLOCATIONS pods in the output of `trackbed agent status`, sorted by namespace and name."""
    allocations = [
        _to_allocation(attachment)
        for attachment in status.get("attachments", ())
        if attachment.get("pod") and attachment.get("done", True)
    ]
    return tuple(sorted(allocations, key=lambda allocation: (allocation.namespace, allocation.pod))[:MAX_ALLOCATIONS])


def _to_allocation(attachment: Mapping[str, Any]) -> Allocation:
    namespace, _, pod = attachment["pod"].partition("/")
    ports = sorted(attachment["ports"], key=lambda port: port["rail"])
    addresses = tuple(address["text"].partition("/")[0] for port in ports for address in port.get("addresses", ()))
    return Allocation(namespace, pod, tuple(port["rail"] for port in ports), addresses)


async def _write_allocations(client: Client, node_name: str, allocations: tuple[Allocation, ...]) -> None:
    identity = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": node_name}}
    body = {**identity, "status": {"allocations": msgspec.to_builtins(allocations)}}
    await client.apply(join_path(PATH, node_name, "status"), body, MANAGER)
