"""Simulated hosts that answer single flows of a cover as perftest does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.prove.hosts import Hosts


@dataclass
class SingleFlowHosts(Hosts):
    """Hosts of which the first single flows share a link, so that each has half of the rate."""

    collisions: int = 0

    def _run(self, node: str, step: Mapping[str, Any]) -> object:
        answer = super()._run(node, step)
        if "relay" not in step or "--flow_label" not in step["argv"] or not isinstance(answer, dict):
            return answer
        document = json.loads(answer["stderr"])
        document["test_info"]["test"] = "RDMA_Write_BW_Test"
        document["results"]["BW_average"] /= 4 if self.collisions > 0 else 2
        self.collisions -= 1
        return {**answer, "stderr": json.dumps(document)}
