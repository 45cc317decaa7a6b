"""The duration of `trackbed render stack NAME` for 1,000 and for 12,500 nodes with 8 rails."""

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench import spawn
from bench.figures import Figure
from tests.cluster.stacks.sites import CX7, HEAD, SITES, ports
from trackbed.cluster.stacks import MODULES

TRACKBED: Final = Path(sys.executable).with_name("trackbed")
GOALS: Final = {1_000: 3.0, 12_500: 30.0}
"""Number of nodes -> seconds."""


def stacks(names: list[str]) -> Iterator[Figure]:
    """Yield the seconds of the command for each stack and size; a refusal has no value, but a reason."""
    with tempfile.TemporaryDirectory() as folder:
        for name in names or MODULES:
            for nodes, goal in GOALS.items():
                yield _measure_render(Path(folder) / "fabric.yaml", name, nodes, goal)


def _measure_render(file: Path, name: str, nodes: int, goal: float) -> Figure:
    file.write_text(json.dumps(_fabric(name, nodes)))
    end = spawn.call([str(TRACKBED), "render", "stack", name, "-f", str(file)], os.environ)
    name_and_size = f"render stack {name}, {nodes:,} nodes"
    if end.code == 0:
        return Figure(f"{name_and_size} ({len(end.stdout) / 1e6:.0f} MB)", end.ms / 1000, goal, "s")
    refusal = end.stderr.decode().partition("error: ")[2].partition("\n")[0]
    return Figure(name_and_size, None, goal, "s", why=f"refused: {refusal}")


def _fabric(name: str, nodes: int) -> dict[str, Any]:
    site = SITES[name]
    wide = {"ipv4": "10.0.0.0/8"} if "ipv4" in site["addressing"] else {}
    spec = {
        "nodes": [{"hosts": f"gpu-[00000-{nodes - 1:05}]", "ports": ports(8), "nic": CX7}],
        "rails": 8,
        "nodesPerUnit": 128,
        **site,
        "addressing": site["addressing"] | wide,
        "otherRanges": {"docker": []},
    }
    return {**HEAD, "spec": spec}
