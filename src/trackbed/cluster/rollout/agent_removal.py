"""Removal of stack native's agents from the nodes' CNI chains, before their DaemonSet is deleted.

Without an agent the CNI executable blocks, so that no pod of the node can start or stop. Therefore the DaemonSet's pods
are first replaced by pods that remove the executable from the chain.
"""

import asyncio
import time
from collections.abc import Callable

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.response import Object
from trackbed.cluster.stacks.native.daemon import NAME, build_removal_patch

FIELD_MANAGER = "trackbed-leave"
REMOVAL_SECONDS = 180.0
"""Time limit, for nodes that are down. Helm allows its hook five minutes, including the start of the hook's pod."""
_POLL_SECONDS = 1.0
_API, _KIND = "apps/v1", "DaemonSet"

Report = Callable[[str], None]
"""Function that shows a line to the user."""


def is_agent_daemon_set(body: Object) -> bool:
    """Return whether an object is the DaemonSet of stack native's agents."""
    return (body["kind"], body["metadata"]["name"]) == (_KIND, NAME)


async def remove_agents(
    client: DynamicClient, namespace: str, report: Report, timeout_seconds: float = REMOVAL_SECONDS
) -> None:
    """Remove all agents of a namespace from their nodes' CNI chains, if there are any. Raises KubeError.

    Past the time limit, report how many agents have left, and what to do on the other nodes.
    """
    daemon_set = await client.find(_API, _KIND, NAME, namespace)
    if (
        daemon_set is None
        or daemon_set["metadata"].get("deletionTimestamp")
        or not _read_observed_generation(daemon_set)
    ):
        return  # a DaemonSet without an observed generation has no pods
    image = daemon_set["spec"]["template"]["spec"]["containers"][0]["image"]
    await client.apply(build_removal_patch(image, namespace), manager=FIELD_MANAGER, force=True)
    deadline = time.monotonic() + timeout_seconds
    reported = ""
    while (progress := await _describe_progress(client, namespace)) and time.monotonic() < deadline:
        if progress != reported:
            report(f"waiting: {progress}")
        reported = progress
        await asyncio.sleep(_POLL_SECONDS)
    if progress:
        report(
            f"continuing although {progress}: on the other nodes no pod can start or stop until you remove "
            '{"type": "trackbed"} from the .conflist in /etc/cni/net.d there, and then delete /opt/cni/bin/trackbed'
        )


async def _describe_progress(client: DynamicClient, namespace: str) -> str:
    """Return how many agents have left their nodes, as text; empty once all have."""
    daemon_set = await client.get(_API, _KIND, NAME, namespace)
    status = daemon_set.get("status", {})
    total, left = int(status.get("desiredNumberScheduled", 0)), 0
    if _read_observed_generation(daemon_set) >= daemon_set["metadata"]["generation"]:
        left = min(int(status.get("updatedNumberScheduled", 0)), int(status.get("numberReady", 0)))
    elif not total:
        return "no controller has seen yet that the agents, which are on no node, are to leave"
    return f"agents have left {left} of {total} nodes" if left < total else ""


def _read_observed_generation(body: Object) -> int:
    """Return the status.observedGeneration of an object; 0 without it."""
    return int(body.get("status", {}).get("observedGeneration", 0))
