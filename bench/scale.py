"""How long a person waits: the whole of `trackbed plan` on 12,500 nodes, the plan function alone, `trackbed --help`."""

import os
import sys
from pathlib import Path
from statistics import median
from typing import Final

from bench import spawn
from bench.figures import Figure

FABRIC: Final = Path(__file__).parents[1] / "examples" / "fabric-12500.yaml"
TRACKBED: Final = Path(sys.executable).with_name("trackbed")

_PLAN_ALONE: Final = """
import sys, time
from pathlib import Path
from trackbed.fabric.plan.compute import plan
from trackbed.fabric.model.load import load
fabric = load(Path(sys.argv[1]).read_bytes(), sys.argv[1]).fabric
start = time.perf_counter()
plan(fabric, {})
print(time.perf_counter() - start)
"""


def plan(runs: int) -> list[Figure]:
    """Medians of `runs` runs: the whole command in seconds, its largest resident set in MB, the plan function alone."""
    ends, why = _runs([str(TRACKBED), "plan", "-f", str(FABRIC), "-o", "json"], runs)
    alone, why_alone = _runs([sys.executable, "-c", _PLAN_ALONE, str(FABRIC)], runs)
    wall = median(end.ms for end in ends) / 1000 if ends else None
    rss = median(end.rss_kib for end in ends) * 1024 / 1e6 if ends else None
    function = median(float(end.stdout) for end in alone) if alone else None
    return [
        Figure("trackbed plan -o json, 12,500 nodes", wall, 3, "s", why=why),
        Figure("its largest resident set", rss, 400, "MB", why=why),
        Figure("the plan function alone", function, 0.5, "s", why=why_alone),
    ]


def cli(runs: int) -> list[Figure]:
    """Median milliseconds of `trackbed --help`."""
    ends, why = _runs([str(TRACKBED), "--help"], runs)
    return [Figure("trackbed --help", median(end.ms for end in ends) if ends else None, 120, "ms", why=why)]


def _runs(argv: list[str], runs: int) -> tuple[list[spawn.Exit], str]:
    """That many runs after one that warms the page cache; or none, and why."""
    ends: list[spawn.Exit] = []
    for _ in range(runs + 1):
        try:
            end = spawn.call(argv, os.environ)
        except OSError as error:
            return [], f"{argv[0]}: {error.strerror}"
        if end.code != 0:
            last = end.stderr.decode(errors="replace").strip().splitlines()[-1:]
            return [], f"{argv[0]} ended with {end.code}: {''.join(last)}"
        ends.append(end)
    return ends[1:], ""
