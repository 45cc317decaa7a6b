"""Objects that an API server keeps and that no recursive decoder can follow."""

from __future__ import annotations

import msgspec
from trackbed_lab.kubernetes.blocking import BlockingClient

from trackbed.cluster.api.response import Object

DEPTH = 9000
"""The API server takes up to 10,000 levels (encoding/json, scanner.go, maxNestingDepth)."""


def build_deep_json(depth: int = DEPTH) -> bytes:
    return b'{"f:a":' * depth + b"{}" + b"}" * depth


def create_deep_object(client: BlockingClient, path: str, kind: str, name: str) -> str:
    """Create an object of v1 with deep managedFields; return its name."""
    fields: Object = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    fields |= {"time": "2026-01-01T00:00:00Z", "fieldsV1": msgspec.Raw(build_deep_json())}
    body: Object = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "managedFields": [fields]}}
    response = client.run(client.dynamic.client.request("POST", path, body))
    assert response.status_code == 201, response.text
    stored = client.run(client.dynamic.client.request("GET", f"{path}/{name}"))
    assert stored.content.count(b"f:a") == DEPTH
    return name
