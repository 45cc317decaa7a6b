"""Requests as the API server makes them, without one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from trackbed.cluster.webhook.review import ReviewRequest


def request(body: Mapping[str, Any], before: Mapping[str, Any] | None = None, namespace: str = "") -> ReviewRequest:
    """The request about an object that is created, or changed from `before`."""
    return msgspec.convert(
        {
            "uid": "u",
            "operation": "CREATE" if before is None else "UPDATE",
            "namespace": namespace,
            "name": body["metadata"].get("name", ""),
            "object": msgspec.Raw(json.dumps(body).encode()),
            "oldObject": msgspec.Raw(json.dumps(before).encode()),
        },
        ReviewRequest,
    )
