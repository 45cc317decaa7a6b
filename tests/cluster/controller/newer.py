"""`trackbed` as a version to come might be: it writes more than today's one knows, and plans in other words.

Started as a program by tests/cluster/controller/test_upgrade.py, which has its CRDs.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from trackbed.cli.main import main
from trackbed.cluster.api.live import Live
from trackbed.cluster.controller import slices
from trackbed.cluster.controller.stage import Slice
from trackbed.fabric.plan.plan import NodePlan

WORDS = "newer-"
"""What its digests of plans begin with."""
_CONDITION = {"type": "Further", "status": "True", "reason": "Newer", "lastTransitionTime": "2026-01-01T00:00:00Z"}
_slice, _write = slices._slice, Live._write  # noqa: SLF001 - to play another version is to be another one within


def _worded(node: NodePlan) -> Slice:
    one = _slice(node)
    return one._replace(digest=WORDS + one.digest)


async def _more(  # noqa: PLR0913, PLR0917 - as Live has it
    live: Live, method: str, path: str, body: dict[str, Any], kind: str, params: Mapping[str, str] | None = None
) -> dict[str, Any]:
    told = copy.deepcopy(body)
    if path.endswith("/status"):
        others = [one for one in told["status"].get("conditions", ()) if one["type"] != _CONDITION["type"]]
        told["status"] |= {"further": "newer", "conditions": [*others, _CONDITION]}
    elif "/railnodes" in path:
        told["spec"]["further"] = "newer"
        told["spec"].get("plan", {}).get("node", {})["further"] = "newer"
    return await _write(live, method, path, told, kind, params)


if __name__ == "__main__":
    slices._slice = _worded  # noqa: SLF001 - as above
    Live._write = _more  # type: ignore[method-assign,assignment] # noqa: SLF001 - as above
    main()
