"""Removal of stack native's agents: each takes itself out of its node's CNI chain before its DaemonSet is deleted.

A runtime that still called the executable would wait for an agent that never comes, so no pod of any node could start
or end. The DaemonSet is changed so that its pods do that, and deleted once all of them have.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.response import Object
from trackbed.cluster.stacks.native.daemon import NAME, leaving

MANAGER = "trackbed-leave"
SECONDS = 180.0
"""Time limit for a node that is down; helm gives a hook five minutes, the start of its pod included."""
_POLL_SECONDS = 1.0
_API, _KIND = "apps/v1", "DaemonSet"

Report = Callable[[str], None]


def is_agent_daemon_set(body: Object) -> bool:
    """Return whether an object is the DaemonSet of the agents."""
    return (body["kind"], body["metadata"]["name"]) == (_KIND, NAME)


async def remove_agents(client: DynamicClient, namespace: str, report: Report, seconds: float = SECONDS) -> None:
    """Have all agents of a namespace leave their hosts, if there are any. Raises KubeError.

    Past the deadline the nodes whose agent has not left are reported, with what to do there.
    """
    daemon_set = await client.find(_API, _KIND, NAME, namespace)
    if (
        daemon_set is None
        or daemon_set["metadata"].get("deletionTimestamp")
        or not _read_observed_generation(daemon_set)
    ):
        return  # a DaemonSet that no controller has seen has no agents
    image = daemon_set["spec"]["template"]["spec"]["containers"][0]["image"]
    await client.apply(leaving(image, namespace), manager=MANAGER, force=True)
    deadline = time.monotonic() + seconds
    reported = ""
    while (progress := await _describe_progress(client, namespace)) and time.monotonic() < deadline:
        if progress != reported:
            report(f"waiting: {progress}")
        reported = progress
        await asyncio.sleep(_POLL_SECONDS)
    if progress:
        report(
            f"going on although {progress} only: on the others no pod can start or end until somebody takes "
            '{"type": "trackbed"} out of the .conflist in /etc/cni/net.d there, and then deletes /opt/cni/bin/trackbed'
        )


async def _describe_progress(client: DynamicClient, namespace: str) -> str:
    """Return how many agents have left their nodes, in words; empty once all have."""
    daemon_set = await client.get(_API, _KIND, NAME, namespace)
    status = daemon_set.get("status", {})
    total, left = int(status.get("desiredNumberScheduled", 0)), 0
    if _read_observed_generation(daemon_set) < daemon_set["metadata"]["generation"]:
        total = max(total, 1)
    else:
        left = min(int(status.get("updatedNumberScheduled", 0)), int(status.get("numberReady", 0)))
    return f"agents have left {left} of {total} nodes" if left < total else ""


def _read_observed_generation(body: Object) -> int:
    """Return the generation that its controller has seen last; 0 for none."""
    return int(body.get("status", {}).get("observedGeneration", 0))
