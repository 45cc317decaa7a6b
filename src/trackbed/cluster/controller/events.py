"""Events about nodes (events.k8s.io/v1), shown by `kubectl describe railnode` and `kubectl get events`.

They are written after a move, once and best effort: nothing waits for them, and a failed write is not repeated.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import uuid4

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.controller.decide import Verb
from trackbed.cluster.controller.objects import RailNode
from trackbed.cluster.resources.railnode import API_VERSION, KIND

_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
"""Events about cluster-scoped objects are in namespace `default`."""
_CONTROLLER = "trackbed.dev/controller"
_LONGEST_NOTE = 1024

EVENTS: Mapping[Verb, tuple[str, str]] = {
    "begin": ("Preparing", "tainted and cordoned: its host differs from the plan"),
    "guard": ("TaintRestored", "somebody took the taint away while the host is being changed"),
    "reboot": ("Rebooting", "its agent may end the boot that it reported"),
    "finish": ("Sound", "its host is as planned: it takes pods again"),
    "retry": ("Retrying", "its agent tries once more"),
    "leave": ("Left", "the Fabric names it no longer; its host stays as it is"),
}
"""Reason and note of the event about a move."""


async def record_railnode_event(
    client: Client, railnode: RailNode, reason: str, note: str, kind: Literal["Normal", "Warning"] = "Normal"
) -> None:
    """Write an event about a RailNode, best effort."""
    name, uid = railnode.metadata.name, railnode.metadata.uid
    regarding = {"apiVersion": API_VERSION, "kind": KIND, "name": name, "uid": uid}
    await record_event(client, regarding, reason, note, kind)


async def record_event(
    client: Client, regarding: Mapping[str, str], reason: str, note: str, kind: Literal["Normal", "Warning"] = "Normal"
) -> None:
    """Write an event about a cluster-scoped object, best effort."""
    event: dict[str, Any] = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{regarding['name']}.{uuid4().hex[:16]}", "namespace": "default"},
        "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": _CONTROLLER,
        "reportingInstance": _CONTROLLER,
        "action": "RollOut",
        "reason": reason,
        "regarding": dict(regarding),
        "note": note[:_LONGEST_NOTE],
        "type": kind,
    }
    with suppress(KubeError):
        await client.create(_EVENTS, event)
