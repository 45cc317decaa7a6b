"""What must happen on the nodes before stack native's agents are deleted: they take themselves out of the CNI chain.

A runtime that still called the executable would wait for an agent that never comes, so no pod of any node could start
or end. The DaemonSet is made into one whose pods do that, and deleted once all of them have.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from trackbed.cluster.api.answer import Object
from trackbed.cluster.api.client import Client
from trackbed.cluster.stacks.native.daemon import NAME, leaving

MANAGER = "trackbed-leave"
SECONDS = 180.0
"""A node that is down is not waited for any longer; helm gives a hook five minutes, its pod's start included."""
_POLL_SECONDS = 1.0
_API, _KIND = "apps/v1", "DaemonSet"

Tell = Callable[[str], None]


def is_agents(one: Object) -> bool:
    """Whether an object is the DaemonSet of the agents."""
    return (one["kind"], one["metadata"]["name"]) == (_KIND, NAME)


def farewell(client: Client, namespace: str, tell: Tell, seconds: float = SECONDS) -> None:
    """Have all agents of a namespace leave their hosts, if there are any. Raises KubeError.

    Nodes whose agent has not left after so long are told of, with what to do there.
    """
    found = client.find(_API, _KIND, NAME, namespace)
    if found is None or found["metadata"].get("deletionTimestamp") or not _generation(found):
        return  # where no controller has seen it yet there are no agents either
    image = found["spec"]["template"]["spec"]["containers"][0]["image"]
    client.apply(leaving(image, namespace), manager=MANAGER, force=True)
    deadline = time.monotonic() + seconds
    told = ""
    while (late := _late(client, namespace)) and time.monotonic() < deadline:
        if late != told:
            tell(f"waiting: {late}")
        told = late
        time.sleep(_POLL_SECONDS)
    if late:
        tell(
            f"going on although {late} only: on the others no pod can start or end until somebody takes "
            '{"type": "trackbed"} out of the .conflist in /etc/cni/net.d there, and then deletes /opt/cni/bin/trackbed'
        )


def _late(client: Client, namespace: str) -> str:
    """How far agents have left their nodes, in words; empty once all have."""
    found = client.get(_API, _KIND, NAME, namespace)
    status = found.get("status", {})
    wanted, left = int(status.get("desiredNumberScheduled", 0)), 0
    if _generation(found) < found["metadata"]["generation"]:
        wanted = max(wanted, 1)
    else:
        left = min(int(status.get("updatedNumberScheduled", 0)), int(status.get("numberReady", 0)))
    return f"agents have left {left} of {wanted} nodes" if left < wanted else ""


def _generation(found: Object) -> int:
    """The generation that its controller has seen last; 0 for none."""
    return int(found.get("status", {}).get("observedGeneration", 0))
