#!/usr/bin/env python3
"""The benchmark's one program: `bench/run.py [plan|cli|stacks|attach|fleet|webhook|control|all] [options]`."""

import argparse
import contextlib
import fcntl
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import (
    attach,
    control,
    figures,
    fleet,
    goals,
    overheads,
    peers,
    rows,
    scale,
    stacks,
    summary,
    turns,
    webhook,
)  # found by the line above

_CLOCK_MONOTONIC_COARSE = 6  # linux/time.h; its resolution is one tick of the kernel


def main() -> int:
    """Measure, print, and return 0; or 1 when something of Trackbed, or a floor, could not be measured."""
    options = _options()
    found: list[figures.Figure] = []
    attached = None
    if options.what in ("cli", "all"):
        found += scale.cli(20)
    if options.what in ("plan", "all"):
        found += scale.plan(options.runs)
    if options.what in ("stacks", "all"):
        found += stacks.stacks(options.stack)
    if options.what == "webhook":  # for a quiet machine
        found += webhook.webhook()
    if options.what == "control":  # for a quiet machine
        found += control.control()
    if options.what == "fleet":  # for a quiet machine, and root
        found += fleet.fleet()
    if options.what in ("attach", "all"):
        attached = _attach(attach.Amount(options.pods, options.peer_pods, options.rounds))
        found += goals.goals(rows.rows(attached[0].samples), attached[0])
    print(_json(found, attached) if options.output == "json" else _text(found, attached))
    return 0 if all(figure.value is not None for figure in found if not _may_be_none(figure)) else 1


def _may_be_none(figure: figures.Figure) -> bool:
    """Others' programs may not be there to measure, and a stack may refuse 12,500 nodes."""
    return figure.optional or figure.why.startswith("refused: ")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure Trackbed against its goals, its floor and today's programs.")
    parser.add_argument(
        "what",
        nargs="?",
        default="all",
        choices=("plan", "cli", "stacks", "attach", "fleet", "webhook", "control", "all"),
    )
    parser.add_argument("-o", dest="output", default="text", choices=("text", "json"), help="how to print")
    parser.add_argument("--runs", type=_positive, default=5, help="plan: runs of the whole command (%(default)s)")
    parser.add_argument("--stack", action="append", default=[], help="stacks: only this one; may be repeated")
    parser.add_argument("--pods", type=_positive, default=200, help="attach: pods one after another (%(default)s)")
    parser.add_argument("--peer-pods", type=_positive, default=40, help="attach: the same for others (%(default)s)")
    parser.add_argument("--rounds", type=_positive, default=5, help="attach: times ten at once (%(default)s)")
    return parser.parse_args()


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


Attached = tuple[turns.Measured, dict[str, float]]


def _attach(amount: attach.Amount) -> Attached:
    with _state() as state:
        built = peers.peers()
        costs = overheads.overheads()
        return attach.measure(state, built, amount), costs


@contextlib.contextmanager
def _state() -> Iterator[Path]:
    """A folder on disk (journals are synced to it) for one run at a time; what a killed run left goes first."""
    cache = peers.cache()
    cache.mkdir(parents=True, exist_ok=True)
    state = cache / "state"
    with (cache / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"another benchmark runs: it holds {lock.name}. Wait for it to end, or set TRACKBED_BENCH_CACHE")
        shutil.rmtree(state, ignore_errors=True)
        state.mkdir()
        yield state
        shutil.rmtree(state, ignore_errors=True)


def _machine() -> dict[str, str]:
    return {
        "when": time.strftime("%Y-%m-%d %H:%M"),
        "kernel": platform.release(),
        "HZ": f"{1 / time.clock_getres(_CLOCK_MONOTONIC_COARSE):.0f}",
        "cores": str(len(os.sched_getaffinity(0))),
        "load": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
    }


def _text(found: list[figures.Figure], attached: Attached | None) -> str:
    parts = [", ".join(f"{fact} {value}" for fact, value in _machine().items())]
    if attached:
        parts.append(summary.text(*attached))
    return "\n\n".join([*parts, figures.text(found)])


def _json(found: list[figures.Figure], attached: Attached | None) -> str:
    document: dict[str, object] = {
        "machine": _machine(),
        "goals": [asdict(figure) | {"verdict": figure.verdict} for figure in found],
    }
    if attached:
        measured, costs = attached
        document["attach"] = {
            "rows": [asdict(row) for row in rows.rows(measured.samples)],
            "missing": measured.missing,
            "overheads_ms": costs,
            "agent_us": measured.timings,
            "asked_per_pod": measured.counts,
            "agent_memory_mb": measured.memory_mb,
            "agent_tcp_sockets": measured.tcp_sockets,
        }
    return json.dumps(document, indent=1)


if __name__ == "__main__":
    sys.exit(main())
