"""A proof in simulation: is the culprit named first, is a healthy part blamed, in how many rounds and seconds."""

import multiprocessing
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Final

from bench import figures, spawn
from bench.prove_cases import OF_MANY, Case, Incident, happen, list_cases, to_key
from bench.prove_network import Network, Traffic
from bench.prove_peers import PEERS
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.prove.blame import Blame, investigate
from trackbed.prove.budget import ROUND_SECONDS
from trackbed.prove.links import Trace
from trackbed.prove.rounds import plan_cover, plan_screen
from trackbed.prove.topology import FabricTopology, Uplinks, build_topology

HELD_OUT: Final = 2_000_000
"""Seeds from here on were not used while thresholds were chosen."""
SIZES: Final = {
    32: (8, Uplinks(spines=4, links=2)),
    128: (32, Uplinks(spines=16, links=2)),
    1024: (32, Uplinks(spines=16, links=2)),
    12_500: (64, Uplinks(spines=32, links=2, units_per_pod=32)),
}
"""Nodes: nodes of a unit, and uplinks. Four leaves a rail and more: two cannot tell which of both is low."""
_HASHES: Final = {32: 10, 128: 5, 1024: 2, 12_500: 1}
_SEEDS: Final = {32: 100, 128: 100, 1024: 20, 12_500: 2}
_QUICK_SEEDS: Final = {32: 4, 128: 3}
_PROCESSES: Final = 2


@dataclass(frozen=True)
class Run:
    """What one run said of its incident."""

    nodes: int
    label: str
    """Ours by the kind of fault, or a peer."""
    named: bool
    blamed: int
    """Healthy parts that were named."""
    seconds: float


@dataclass
class Fabrics:
    """A network and the traffic of its planned rounds."""

    network: Network
    screen: list[Traffic]
    cover: list[Traffic] = field(default_factory=list)


@cache
def build_fabric(nodes: int) -> FabricTopology:
    """Return the topology of a fabric with 8 rails."""
    nodes_per_unit, uplinks = SIZES[nodes]
    addressing = {"scheme": "none"}
    spec = {"nodes": [{"hosts": f"n[0-{nodes - 1}]"}], "rails": 8, "nodesPerUnit": nodes_per_unit}
    head = {"apiVersion": "trackbed.dev/v1alpha1", "kind": "Fabric", "metadata": {"name": "sim"}}
    fabric = Fabric.model_validate(head | {"spec": spec | {"addressing": addressing}})
    return build_topology(compute_plan(fabric, {}), uplinks)


@cache
def prepare(nodes: int, salt: int, *, cover: bool, traced: bool) -> Fabrics:
    """Return a network with the traffic of its rounds."""
    network = Network(build_fabric(nodes), salt, traced=traced)
    if cover:
        screen = prepare(nodes, salt, cover=False, traced=traced).screen
        return Fabrics(network, screen, [network.prepare(tests) for tests in plan_cover(network.topology)])
    return Fabrics(network, [network.prepare(tests) for tests in plan_screen(network.topology)])


def run_case(nodes: int, case: Case, seed: int, *, traced: bool = True) -> Run:
    """Simulate one case once."""
    chance = random.Random(f"{nodes} {case} {seed}")  # noqa: S311 - a simulation has to be repeatable
    cover = case.kind in OF_MANY
    fabrics = prepare(nodes, seed % _HASHES[nodes], cover=cover, traced=traced)
    incident = happen(case, fabrics.network.topology, chance)
    blame, rounds = prove(fabrics, incident, chance)
    keys = [to_key(culprit) for culprit in blame.culprits]
    named = set(keys[: len(incident.culprits)]) == set(incident.culprits)
    wrong = sum(key not in incident.culprits for key in keys)
    return Run(nodes, case.kind, named, wrong, rounds * ROUND_SECONDS)


def run_peers(nodes: int, case: Case, seed: int) -> Iterator[Run]:
    """Simulate what others would say of a case; they name nodes, so a node with the culprit counts as named."""
    chance = random.Random(f"{nodes} {case} {seed}")  # noqa: S311 - a simulation has to be repeatable
    topology = build_fabric(nodes)
    incident = happen(case, topology, chance)
    guilty = {node for key in incident.culprits for node in key[-1]}
    for name, judge in PEERS.items():
        named, seconds = judge(topology, incident, chance)
        yield Run(nodes, name, bool(named) and named[0] in guilty, len(set(named) - guilty), seconds)


def simulate(nodes: int, seeds: Sequence[int], cases: Iterable[Case]) -> list[Run]:
    """Run all cases with all seeds, and the peers on fabrics of up to 1,024 nodes."""
    chosen = list(cases)
    runs = [run_case(nodes, case, seed) for case in chosen for seed in seeds]
    if nodes <= _MOST_FOR_PEERS:
        runs += [run for case in chosen for seed in seeds[:_PEER_SEEDS] for run in run_peers(nodes, case, seed)]
    return runs


_MOST_FOR_PEERS: Final = 1024
_PEER_SEEDS: Final = 10


def prove_all(*, held_out: bool, sizes: Sequence[int]) -> str:
    """Run the whole simulation on two cores; return a table. With CI=true some 500 runs."""
    seeds_of = _QUICK_SEEDS if os.environ.get("CI") == "true" else _SEEDS
    first, began = HELD_OUT if held_out else 0, time.monotonic()
    jobs = [
        (nodes, range(first, first + seeds_of[nodes]), [case for case in list_cases() if case.kind == kind])
        for nodes in sizes or seeds_of
        if nodes in seeds_of
        for kind in dict.fromkeys(case.kind for case in list_cases())
    ]
    with multiprocessing.get_context("forkserver").Pool(_PROCESSES) as pool:
        runs = [run for part in pool.starmap(simulate, jobs, chunksize=1) for run in part]
    which = "held-out seeds" if held_out else "seeds that thresholds were chosen with"
    return f"{figures.text(_measure_planner())}\n\n{which}, {time.monotonic() - began:.0f} s\n{_render(runs)}"


def _measure_planner() -> Iterator[figures.Figure]:
    """Yield processor seconds and memory of planning a proof of 12,500 nodes."""
    end = spawn.call([sys.executable, str(Path(__file__).with_name("prove_plan_alone.py"))], os.environ)
    lines = [line.split() for line in end.stdout.decode().splitlines()] if end.code == 0 else []
    why = "" if lines else end.stderr.decode(errors="replace").strip()[-200:]
    for index, name in enumerate(("screen", "cover")):
        seconds = float(lines[index][0]) if lines else None
        rounds = f"{lines[index][1]} rounds, {lines[index][2]} tests" if lines else why
        yield figures.Figure(f"planning a {name} of 12,500 nodes", seconds, 2, "s", why=rounds)
    yield figures.Figure("its largest resident set", float(lines[2][0]) if lines else None, 500, "MB", why=why)


def _render(runs: Iterable[Run]) -> str:
    groups: dict[tuple[int, str], list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.nodes, run.label].append(run)
        if run.label not in PEERS:
            groups[run.nodes, "Trackbed, all"].append(run)
    rows = [["nodes × 8", "fault or peer", "runs", "named first", "runs with healthy blamed", "mean s", "most s"]]
    for (nodes, label), group in groups.items():
        named, blamed = mean(run.named for run in group), sum(run.blamed > 0 for run in group)
        share = f"{blamed} ({blamed / len(group):.2%})"
        times = [f"{mean(run.seconds for run in group):.0f}", f"{max(run.seconds for run in group):.0f}"]
        rows.append([f"{nodes}", label, f"{len(group)}", f"{named:.2%}", share, *times])
    return figures.table(rows)


def prove(fabrics: Fabrics, incident: Incident, chance: random.Random) -> tuple[Blame, int]:
    """Measure the planned rounds and what the investigation asks for; return its blame and the number of rounds."""
    network = fabrics.network
    planned = [*fabrics.screen, *fabrics.cover]
    results = [(traffic.tests, network.measure(traffic, incident.faults, chance)) for traffic in planned]
    investigation, rounds = investigate(network.topology, results), len(results)
    try:
        request = next(investigation)
        while True:
            rounds += 1
            if isinstance(request, Trace):
                request = investigation.send(network.trace(request))
            else:
                request = investigation.send(network.measure(network.prepare(request), incident.faults, chance))
    except StopIteration as end:
        blame: Blame = end.value
        return blame, rounds
