"""Events about nodes (events.k8s.io/v1): what a person sees in `kubectl describe railnode` and `kubectl get events`.

They are told after the deed, once; one that cannot be written is lost, and nothing waits for it.
"""

from __future__ import annotations

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
"""Events about what has no namespace are in `default`."""
_CONTROLLER = "trackbed.dev/controller"
_LONGEST_NOTE = 1024

DEEDS: Mapping[Verb, tuple[str, str]] = {
    "begin": ("Preparing", "tainted and cordoned: its host differs from the plan"),
    "guard": ("TaintRestored", "somebody took the taint away while the host is being changed"),
    "reboot": ("Rebooting", "its agent may end the boot that it reported"),
    "finish": ("Sound", "its host is as planned: it takes pods again"),
    "retry": ("Retrying", "its agent tries once more"),
    "leave": ("Left", "the Fabric names it no longer; its host stays as it is"),
}
"""What is told of a deed: reason and note."""


async def tell(
    client: Client, rail: RailNode, reason: str, note: str, kind: Literal["Normal", "Warning"] = "Normal"
) -> None:
    """Write an event about a RailNode, if that can be done."""
    about = {"apiVersion": API_VERSION, "kind": KIND, "name": rail.metadata.name, "uid": rail.metadata.uid}
    await tell_of(client, about, reason, note, kind)


async def tell_of(
    client: Client, about: Mapping[str, str], reason: str, note: str, kind: Literal["Normal", "Warning"] = "Normal"
) -> None:
    """Write an event about an object that has no namespace, if that can be done."""
    one: dict[str, Any] = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{about['name']}.{uuid4().hex[:16]}", "namespace": "default"},
        "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": _CONTROLLER,
        "reportingInstance": _CONTROLLER,
        "action": "RollOut",
        "reason": reason,
        "regarding": dict(about),
        "note": note[:_LONGEST_NOTE],
        "type": kind,
    }
    with suppress(KubeError):
        await client.create(_EVENTS, one)
