"""Reports about objects that the controller passes over: a condition where the kind has one, an event and a log line.

Each reason is reported once. Nothing else of such an object is touched, and all other objects are handled as ever.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.api.events import Event, record_event
from trackbed.cluster.api.metadata import ObjectMetadata
from trackbed.cluster.api.paths import join_path
from trackbed.cluster.api.times import format_now
from trackbed.cluster.controller.objects import FABRICS, RAILNODES
from trackbed.cluster.controller.pace import IDLE_SECONDS, RETRY_SECONDS, Log
from trackbed.cluster.controller.report import ACCEPTED
from trackbed.cluster.controller.stage import Stage
from trackbed.cluster.resources.conditions import Condition
from trackbed.cluster.resources.railnode import API_VERSION, ROLLED

FIELD_MANAGER = "trackbed-refusals"
"""Its own, so that the fields of the usual status stay as they are."""
_MAX_CHARACTERS = 1000

Kind = Literal["Fabric", "RailNode", "Node"]
_CONDITIONS: Mapping[Kind, tuple[str, str, str]] = {
    "Fabric": (FABRICS, ACCEPTED, "Invalid"),
    "RailNode": (RAILNODES, ROLLED, Stage.HELD),
}
"""Kind -> path of its objects, type and reason of the condition. A Node has none of ours."""


class RefusalReporter:
    """Reports objects that are passed over."""

    def __init__(self, client: Client, log: Log) -> None:
        self._client, self._log = client, log
        self._reported: dict[tuple[Kind, str], tuple[int, str]] = {}

    async def report(self, kind: Kind, metadata: ObjectMetadata, reason: str) -> float:
        """Report an object, unless that is done already; return the seconds until the next pass."""
        key, report = (kind, metadata.name), (metadata.generation, reason)
        if self._reported.get(key) == report:
            return IDLE_SECONDS
        message = f"passed over, and left as it is: {reason}"[:_MAX_CHARACTERS]
        self._log(f"{kind} {metadata.name}: {message}")
        try:
            await self._apply_condition(kind, metadata, message)
        except KubeError as error:
            self._log(f"status of {kind} {metadata.name}: {error}")
            return RETRY_SECONDS
        api_version = "v1" if kind == "Node" else API_VERSION
        regarding = {"apiVersion": api_version, "kind": kind, "name": metadata.name, "uid": metadata.uid}
        await record_event(self._client, regarding, Event("PassedOver", message, "Warning"))
        self._reported[key] = report
        return IDLE_SECONDS

    async def _apply_condition(self, kind: Kind, metadata: ObjectMetadata, message: str) -> None:
        if kind not in _CONDITIONS:
            return
        path, condition_type, reason = _CONDITIONS[kind]
        condition = Condition(condition_type, "False", reason, message, format_now(), metadata.generation)
        body = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": metadata.name}}
        status = {"conditions": [msgspec.to_builtins(condition)]}
        await self._client.apply(join_path(path, metadata.name, "status"), {**body, "status": status}, FIELD_MANAGER)
