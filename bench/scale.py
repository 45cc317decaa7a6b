"""Response times: `trackbed plan` on 12,500 nodes, the plan function alone, `trackbed --help`."""

import os
import sys
from pathlib import Path
from statistics import median
from typing import Final

from bench import spawn
from bench.figures import Figure

FABRIC: Final = Path(__file__).parents[1] / "examples" / "fabric-12500.yaml"
TRACKBED: Final = Path(sys.executable).with_name("trackbed")
_PLAN_ALONE: Final = Path(__file__).with_name("plan_alone.py")


def plan(runs: int) -> list[Figure]:
    """Return medians: the whole command in seconds, its largest resident set in MB, the plan function in seconds."""
    ends, why = _runs([str(TRACKBED), "plan", "-f", str(FABRIC), "-o", "json"], runs)
    alone, why_alone = _runs([sys.executable, str(_PLAN_ALONE), str(FABRIC)], runs)
    wall = median(end.ms for end in ends) / 1000 if ends else None
    rss = median(end.rss_kib for end in ends) * 1024 / 1e6 if ends else None
    function = median(float(end.stdout) for end in alone) if alone else None
    return [
        Figure("trackbed plan -o json, 12,500 nodes", wall, 3, "s", why=why),
        Figure("its largest resident set", rss, 400, "MB", why=why),
        Figure("the plan function alone", function, 0.5, "s", why=why_alone),
    ]


def cli(runs: int) -> list[Figure]:
    """Return the median milliseconds of `trackbed --help`."""
    ends, why = _runs([str(TRACKBED), "--help"], runs)
    return [Figure("trackbed --help", median(end.ms for end in ends) if ends else None, 120, "ms", why=why)]


def _runs(argv: list[str], runs: int) -> tuple[list[spawn.Exit], str]:
    """Return the runs after a first one that warms the page cache; on failure none, and the reason."""
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
