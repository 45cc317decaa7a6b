"""Events about moves, for `kubectl describe` and `kubectl get events`. An event is written after its move."""

from collections.abc import Mapping
from typing import Literal

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.events import Event, record_event
from trackbed.cluster.controller.decide import Verb
from trackbed.cluster.controller.objects import RailNode
from trackbed.cluster.resources.railnode import API_VERSION, KIND

EVENTS: Mapping[Verb, tuple[str, str]] = {
    "begin": ("Preparing", "tainted and cordoned: its host differs from the plan"),
    "guard": ("TaintRestored", "the taint was removed while the host was being changed; it is restored"),
    "reboot": ("Rebooting", "its agent may reboot"),
    "finish": ("Sound", "its host is as planned: it accepts pods again"),
    "retry": ("Retrying", "its agent tries once more"),
    "leave": ("Left", "the Fabric no longer lists it; its host is left as it is"),
}
"""Verb of a move -> reason and note of the event about it."""


async def record_railnode_event(
    client: Client, railnode: RailNode, reason: str, note: str, event_type: Literal["Normal", "Warning"] = "Normal"
) -> None:
    """Write an event about a RailNode, best effort."""
    name, uid = railnode.metadata.name, railnode.metadata.uid
    regarding = {"apiVersion": API_VERSION, "kind": KIND, "name": name, "uid": uid}
    await record_event(client, regarding, Event(reason, note, event_type))
