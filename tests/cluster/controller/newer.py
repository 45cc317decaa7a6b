"""`trackbed` as a version to come might be: it writes more than today's one knows, and plans in other words.

Started as a program by tests/cluster/controller/test_upgrade.py, which has its CRDs.
"""

from __future__ import annotations

import copy
from typing import Any

import httpx2 as httpx

from trackbed.cli.main import main
from trackbed.cluster.api.client import Client
from trackbed.cluster.controller import slices
from trackbed.cluster.controller.stage import PlanSlice
from trackbed.fabric.plan.plan import NodePlan

WORDS = "newer-"
"""Prefix of its digests of plans."""
_CONDITION = {"type": "Further", "status": "True", "reason": "Newer", "lastTransitionTime": "2026-01-01T00:00:00Z"}
_build_slice, _request = slices._build_slice, Client.request  # noqa: SLF001 - to play another version is to be another one within


def _prefix_digest(node: NodePlan) -> PlanSlice:
    node_slice = _build_slice(node)
    return node_slice._replace(digest=WORDS + node_slice.digest)


async def _send_more(  # noqa: PLR0913, PLR0917 - as Client.request has it
    client: Client, method: str, path: str, body: dict[str, Any] | None = None, params: Any = None, headers: Any = None
) -> httpx.Response:
    payload = copy.deepcopy(body)
    if payload is not None and path.endswith("/status"):
        others = [item for item in payload["status"].get("conditions", ()) if item["type"] != _CONDITION["type"]]
        payload["status"] |= {"further": "newer", "conditions": [*others, _CONDITION]}
    elif payload is not None and "/railnodes" in path:
        payload["spec"]["further"] = "newer"
        payload["spec"].get("plan", {}).get("node", {})["further"] = "newer"
    return await _request(client, method, path, payload, params, headers)


if __name__ == "__main__":
    slices._build_slice = _prefix_digest  # noqa: SLF001 - as above
    Client.request = _send_more  # type: ignore[method-assign,assignment] # as above
    main()
