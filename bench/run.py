#!/usr/bin/env python3
"""The benchmark's program: `bench/run.py [WHAT] [options]`; `--help` has the words."""

import argparse
import contextlib
import fcntl
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import (
    api_verdicts,
    attach,
    captures,
    control,
    figures,
    fleet,
    goals,
    jobs_corpus,
    lint_corpus,
    overheads,
    peers,
    prove,
    rows,
    scale,
    stack_runs,
    stacks,
    summary,
    turns,
    webhook,
)  # found by the line above

_OF_MANIFESTS = ("lint", "jobs", "verdicts")
_CLOCK_MONOTONIC_COARSE = 6  # linux/time.h; its resolution is one tick of the kernel


def main() -> int:
    """Measure and print; return 1 if something of Trackbed, or a floor, could not be measured, else 0."""
    options = _options()
    if options.what in _OF_MANIFESTS:
        return _measure_manifests(options)
    if options.run:
        return stack_runs.run_stacks(options.stack, options.folder)
    if options.what == "prove":
        print(prove.prove_all(held_out=options.held_out, sizes=options.nodes))
        return 0
    results: list[figures.Figure] = []
    attached = None
    if options.what in ("cli", "all"):
        results += scale.cli(20)
    if options.what in ("plan", "all"):
        results += scale.plan(options.runs)
    if options.what in ("stacks", "all"):
        results += stacks.stacks(options.stack)
    results += _measure_on_a_quiet_machine(options)
    if options.what in ("attach", "all"):
        attached = _attach(attach.Amount(options.pods, options.peer_pods, options.rounds))
        results += goals.goals(rows.rows(attached[0].samples), attached[0])
    print(_json(results, attached) if options.output == "json" else _text(results, attached))
    return 0 if all(figure.value is not None for figure in results if not _may_be_none(figure)) else 1


def _measure_on_a_quiet_machine(options: argparse.Namespace) -> Iterable[figures.Figure]:
    if options.what == "webhook":
        return webhook.webhook()
    if options.what == "control":
        return control.control()
    if options.what == "captures":
        return captures.captures(options.hosts)
    return fleet.fleet() if options.what == "fleet" else ()  # fleet: as root


def _measure_manifests(options: argparse.Namespace) -> int:
    if options.what == "jobs":
        return jobs_corpus.measure(options.folder)
    if options.what == "verdicts":
        return api_verdicts.measure(options.folder, options.crds, options.mutations, options.seed)
    return lint_corpus.measure(options.folder, options.seed, options.crds, options.list, options.mutations)


def _may_be_none(figure: figures.Figure) -> bool:
    """Return whether a missing value is no failure: programs of other projects, and stacks that refuse 12,500 nodes."""
    return figure.optional or figure.why.startswith("refused: ")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure Trackbed against its goals, its floor and today's programs.")
    parser.add_argument(
        "what",
        nargs="?",
        default="all",
        choices=(
            "plan",
            "cli",
            "stacks",
            "attach",
            "captures",
            "fleet",
            "webhook",
            "control",
            "prove",
            *_OF_MANIFESTS,
            "all",
        ),
    )
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        help="lint, jobs, verdicts: the manifests, as OWNER+REPOSITORY/PATH; captures: how many hosts (512); "
        "stacks --run: bin/ and charts/ of other projects' stacks",
    )
    parser.add_argument(
        "--crds", type=Path, help="lint: CRDs beside those that lint ships with; verdicts: CRDs that are served"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=19,
        help="lint: splits the repositories; verdicts: chooses the mutations (%(default)s)",
    )
    parser.add_argument("--mutations", type=int, default=0, help="lint, verdicts: try also that many mutations")
    parser.add_argument("--list", type=Path, help="lint: write the findings that nobody has judged to this file")
    parser.add_argument("-o", dest="output", default="text", choices=("text", "json"), help="how to print")
    parser.add_argument("--held-out", action="store_true", help="prove: seeds that no threshold was chosen with")
    parser.add_argument("--nodes", type=int, action="append", default=[], help="prove: only this size; may be repeated")
    parser.add_argument("--runs", type=_parse_positive, default=5, help="plan: runs of the whole command (%(default)s)")
    parser.add_argument("--stack", action="append", default=[], help="stacks: only this one; may be repeated")
    parser.add_argument("--run", action="store_true", help="stacks: run each on emulated servers, with DIR's programs")
    parser.add_argument(
        "--pods", type=_parse_positive, default=200, help="attach: pods one after another (%(default)s)"
    )
    parser.add_argument(
        "--peer-pods", type=_parse_positive, default=40, help="attach: the same for others (%(default)s)"
    )
    parser.add_argument("--rounds", type=_parse_positive, default=5, help="attach: times ten at once (%(default)s)")
    options = parser.parse_intermixed_args()
    if options.run and options.what != "stacks":
        parser.error("--run is an option of stacks")
    if options.what == "captures":
        options.hosts = _parse_hosts(parser, options.folder)
    if options.what in _OF_MANIFESTS and not (options.folder and options.folder.is_dir()):
        parser.error(f"{options.what} needs the folder of the manifests")
    return options


def _parse_hosts(parser: argparse.ArgumentParser, argument: Path | None) -> int:
    text = str(argument or captures.HOSTS)
    if not text.isdecimal() or int(text) < captures.MIN_HOSTS:
        parser.error(f"captures needs a number of hosts, {captures.MIN_HOSTS} at least, for the faults among them")
    return int(text)


def _parse_positive(text: str) -> int:
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
    """Yield an empty folder on disk, since journals are synced, for one run at a time."""
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


def _text(results: list[figures.Figure], attached: Attached | None) -> str:
    parts = [", ".join(f"{fact} {value}" for fact, value in _machine().items())]
    if attached:
        parts.append(summary.text(*attached))
    return "\n\n".join([*parts, figures.text(results)])


def _json(results: list[figures.Figure], attached: Attached | None) -> str:
    document: dict[str, object] = {
        "machine": _machine(),
        "goals": [asdict(figure) | {"verdict": figure.verdict} for figure in results],
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
