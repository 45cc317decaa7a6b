"""The cost of pods with all rails, with each stack that the lab can run: on emulated servers, by its own programs."""

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from trackbed_lab.kubernetes.stacks import STACKS

from bench.figures import table
from bench.stacks import TRACKBED

RUNS: Final = Path(__file__).with_suffix(".json")
"""What the last run of each stack measured; scripts/docs makes a page of it."""
_OURS: Final = "native"
_UP, _BACK = "job", "back"
"""The phases of `trackbed lab kubernetes run` that measure."""
_RAN: Final = (0, 1)
"""Exit statuses of a run that took place, as planned or not. Others measured nothing, and replace nothing."""
HEADER: Final = (
    "stack",
    "on",
    "result",
    "whole run",
    "two pods run",
    "times ours",
    "API requests (writes)",
    "back",
    "API requests (writes)",
    "memory of all pods",
)


def run_stacks(names: Sequence[str], programs: Path | None) -> int:
    """Run stacks one after the other, keep what was measured, print it beside others; return the worst status."""
    every = (_OURS, *STACKS)
    status = 0
    for name in names or every:
        run = _run_stack(name, programs)
        status = max(status, run["status"])
        if run["status"] not in _RAN:
            continue
        runs = {old["stack"]: old for old in read_runs()} | {name: run}
        kept = [runs[stack] for stack in every if stack in runs]
        RUNS.write_text(json.dumps(kept, indent=1) + "\n")
    print(table([HEADER, *iter_rows(read_runs())]))
    return status


def read_runs() -> list[dict[str, Any]]:
    """Return the last run of each stack."""
    return list(json.loads(RUNS.read_text())) if RUNS.exists() else []


def _run_stack(name: str, programs: Path | None) -> dict[str, Any]:
    """Run a stack; return its exit status, its seconds, and the figures of its phases."""
    print(f"== stack {name}", file=sys.stderr, flush=True)
    argv = [str(TRACKBED), "lab", "kubernetes", "run", "--stack", name, "-o", "json"]
    start = time.monotonic()
    argv += ["--programs", str(programs)] if programs else []
    end = subprocess.run(argv, stdout=subprocess.PIPE, check=False)
    phases = json.loads(end.stdout or "[]")
    figures = {phase["name"]: phase["figures"] for phase in phases if phase["figures"]}
    return {
        "stack": name,
        "day": time.strftime("%Y-%m-%d"),
        "status": end.returncode,
        "seconds": round(time.monotonic() - start),
        "figures": figures,
    }


def iter_rows(runs: Iterable[dict[str, Any]]) -> Iterator[list[str]]:
    """Yield the cells of each run."""
    runs = list(runs)
    ours = next((run["figures"].get(_UP, {}).get("seconds") for run in runs if run["stack"] == _OURS), None)
    for run in runs:
        up, back = (run["figures"].get(phase, {}) for phase in (_UP, _BACK))
        yield [
            run["stack"],
            run["day"],
            "NOT as planned" if run["status"] else "as planned",
            f"{run['seconds']:,} s",
            _format(up, "seconds", " s"),
            f"× {up['seconds'] / ours:.1f}" if ours and up else "-",
            _format_requests(up),
            _format(back, "seconds", " s"),
            _format_requests(back),
            _format(back, "memoryMib", " MiB"),
        ]


def _format(figures: dict[str, float], name: str, unit: str) -> str:
    return f"{figures[name]:,.0f}{unit}" if name in figures else "-"


def _format_requests(figures: dict[str, float]) -> str:
    return f"{figures['requests']:,.0f} ({figures['writes']:,.0f})" if figures else "-"
