"""Events (events.k8s.io/v1) about cluster-scoped objects, for `kubectl describe` and `kubectl get events`.

An event is written once and best effort: a failed write is not repeated.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import uuid4

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import KubeError

_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
"""Path of events about cluster-scoped objects, which belong to namespace `default`."""
_MAX_NOTE_BYTES = 1024
"""Longest note that an API server accepts (`NoteLengthLimit`)."""


class Event(msgspec.Struct, frozen=True):
    """An event. `reporter` and `action` say which program writes it, and what that was doing."""

    reason: str
    note: str
    type: Literal["Normal", "Warning"] = "Normal"
    reporter: str = "trackbed.dev/controller"
    action: str = "RollOut"


async def record_event(client: Client, regarding: Mapping[str, str], event: Event) -> None:
    """Write an event about an object (its apiVersion, kind, name and uid), best effort."""
    body: dict[str, Any] = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{regarding['name']}.{uuid4().hex[:16]}", "namespace": "default"},
        "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": event.reporter,
        "reportingInstance": event.reporter,
        "action": event.action,
        "reason": event.reason,
        "regarding": dict(regarding),
        "note": event.note.encode()[:_MAX_NOTE_BYTES].decode(errors="ignore"),
        "type": event.type,
    }
    with suppress(KubeError):
        await client.create(_EVENTS, body)
