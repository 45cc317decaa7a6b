"""`trackbed prove --launch` in an allocation of a real slurmctld, by srun and by mpirun."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.fleet.slurm import CONTROL, NODES, PROGRAMS, Slurm, running_slurm
from tests.waiting import wait_until

pytestmark = [pytest.mark.needs("root", "ip", *PROGRAMS), pytest.mark.nightly("a slurmctld and four slurmd run")]

SRUN = "srun --nodelist %h --nodes 1 --ntasks 1 --overlap"
MPIRUN = "mpirun --allow-run-as-root --host %h -np 1"
FABRIC = """apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: train}
spec:
  nodes: [{hosts: "gpu[001-004]"}]
  rails: 2
  nodesPerUnit: 2
  addressing: {scheme: shared-subnet, ipv4: 10.64.0.0/15}
"""
TRACKBED = (sys.executable, "-m", "trackbed")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    folder = tmp_path_factory.mktemp("s")
    (folder / "fabric.yaml").write_text(FABRIC)
    argv = [*TRACKBED, "plan", "-f", str(folder / "fabric.yaml"), "-o", "json"]
    plan = json.loads(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
    addresses = {node["name"]: [port["ipv4"]["address"] for port in node["ports"]] for node in plan["nodes"]}
    with running_slurm(folder, addresses) as running:
        yield running


def prove(slurm: Slurm, launcher: str, lost: str = "", fabric: str = "fabric.yaml") -> tuple[dict[str, Any], list[str]]:
    """Return the JSON of a proof by ping in an allocation, and its events; the worker of `lost` dies in round 2."""
    words = ["prove", "-f", fabric, "--nodes", "all", "--rungs", "ping", "--launch", launcher, "-o", "json"]
    output, events, killed = slurm.folder / "proof.json", [], False
    with (
        output.open("wb") as stdout,
        subprocess.Popen(
            [*slurm.enter(CONTROL), "salloc", "--quiet", f"--nodes={NODES}", *TRACKBED, *words],
            cwd=slurm.folder,
            env=slurm.environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        for line in process.stderr or ():
            events.append(line.rstrip())
            if lost and not killed and events[-1] == "ping: round 2 of 3":
                killed = True
                for pid in slurm.find_workers(lost):
                    os.kill(pid, signal.SIGKILL)
    nodes = [f"gpu{number:03}" for number in range(1, NODES + 1)]
    wait_until(lambda: not any(map(slurm.find_workers, nodes)), "no worker is left on a node")
    return json.loads(output.read_text()), events


@contextmanager
def unplugged(slurm: Slurm) -> Iterator[None]:
    """Drop all frames of rail 1 of gpu003 at its leaf."""
    port = ["ip", "-n", f"{slurm.prefix}{CONTROL}", "link", "set", "dev", "leaf1-3"]
    subprocess.run([*port, "nomaster"], check=True)
    try:
        yield
    finally:
        subprocess.run([*port, "master", "leaf1"], check=True)


@pytest.mark.parametrize("launcher", [SRUN, MPIRUN], ids=["srun", "mpirun"])
def test_all_ranks_report(slurm: Slurm, launcher: str) -> None:
    document, _ = prove(slurm, launcher)
    assert document["summary"].startswith("unknown: 12 tests planned: 12 pass, 0 warn, 0 fail, 0 unknown, 0 not-tested")


@pytest.mark.parametrize("launcher", [SRUN, MPIRUN], ids=["srun", "mpirun"])
def test_a_rank_that_is_killed_costs_its_round(slurm: Slurm, launcher: str) -> None:
    """It waits for replies in round 2, since a leaf drops them."""
    with unplugged(slurm):
        document, events = prove(slurm, launcher, lost="gpu003")
    assert [culprit["where"] for culprit in document["culprits"]] == ["rail 1 of gpu003"]
    assert "ping: round 2 is repeated for the 2 tests that were lost" in events
    assert [event for event in events if event.startswith("gpu003 was lost: it died half-way")]
    assert not [entry for entry in document["untested"] if entry["reason"].startswith("gpu003")]


def test_a_node_that_slurm_does_not_have_is_not_tested_and_nobody_is_blamed(slurm: Slurm) -> None:
    (slurm.folder / "larger.yaml").write_text(FABRIC.replace("gpu[001-004]", "gpu[001-005]"))
    document, _ = prove(slurm, SRUN, fabric="larger.yaml")
    assert document["culprits"] == []
    reasons = [entry["reason"] for entry in document["untested"] if entry["nodes"] == ["gpu005"]]
    assert [reason.startswith("srun did not start it (exit status 1: srun: error: ") for reason in reasons] == [True]
