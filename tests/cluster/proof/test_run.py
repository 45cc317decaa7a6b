"""`trackbed prove --pods` against a real API server: pods are processes with networks of their own, on bridges."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from tests.cluster.proof.kubelets import Kubelets, run_kubelets
from tests.kinds import installed
from trackbed.cluster.proof.objects import PROOF
from trackbed.cluster.resources.railnode import API_VERSION, KIND

pytestmark = pytest.mark.needs("root", "nsenter", "unshare", "ip")

SPACE = "proofs"
RAILS = ("10.64.0", "10.65.0")
FABRIC = """apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: train}
spec:
  nodes: [{hosts: "gpu[1-4]"}]
  rails: 2
  nodesPerUnit: 2
  addressing: {scheme: shared-subnet, ipv4: 10.64.0.0/15}
  kubernetes: {stack: network-operator-macvlan}
"""
REMOVED = (
    ("v1", "Pod"),
    ("v1", "ConfigMap"),
    ("v1", "ServiceAccount"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
)


@dataclass
class Done:
    """What a run of the command printed, and its exit status."""

    document: dict[str, Any]
    status: int
    events: list[str]


@dataclass
class Cluster:
    """An API server with the kubelets of four nodes."""

    client: BlockingClient
    kubeconfig: Path
    folder: Path
    kubelets: Kubelets

    def prove(self, *words: str, react: Callable[[str], None] = lambda _: None) -> Done:
        """Run the command; `react` gets each line of its standard error as it comes."""
        argv = [
            sys.executable,
            "-m",
            "trackbed",
            "prove",
            "-f",
            "fabric.yaml",
            "--nodes",
            "all",
            "-o",
            "json",
            "--pods",
        ]
        reach = ["--image", "x", "--namespace", SPACE, "--kubeconfig", str(self.kubeconfig)]
        output, events = self.folder / "proof.json", []
        with (
            output.open("wb") as stdout,
            subprocess.Popen(
                [*argv, *reach, *words], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=stdout,
                stderr=subprocess.PIPE, text=True,
            ) as process,
        ):  # fmt: skip
            for line in process.stderr or ():
                events.append(line.rstrip())
                react(events[-1])
        text = output.read_text()
        return Done(json.loads(text) if text else {}, process.returncode, events)

    def count_objects(self) -> int:
        """Return how many objects of proofs are there."""
        return sum(len(self.client.list(*kind, SPACE, selector=PROOF)) for kind in REMOVED)


@pytest.fixture
def cluster_with_kubelets(api_server: Path, tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "fabric.yaml").write_text(FABRIC)
    with connect(str(api_server)) as client:
        client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
        with run_kubelets(client, api_server, tmp_path, SPACE, RAILS) as kubelets:
            yield Cluster(client, api_server, tmp_path, kubelets)


def count_verdicts(done: Done, rung: str) -> dict[str, int]:
    verdicts = next(entry["verdicts"] for entry in done.document["rungs"] if entry["rung"] == rung)
    return {verdict: count for verdict, count in verdicts.items() if count}


def test_pods_ping_each_other_by_the_addresses_that_they_have_and_nothing_is_left(
    cluster_with_kubelets: Cluster,
) -> None:
    cluster_with_kubelets.kubelets.lacking = {"gpu3": 1}
    client = cluster_with_kubelets.client
    installed(client)
    railnode = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "gpu3"}}
    client.apply({**railnode, "spec": {"fabric": "train", "slot": 2}})
    done = cluster_with_kubelets.prove("--rungs", "ping,gid", "--to-cluster")
    assert done.status == 1, done.events
    assert count_verdicts(done, "ping") == {"pass": 9, "not-tested": 3}
    assert count_verdicts(done, "gid") == {"fail": 8}
    evidence = {culprit["where"]: culprit["evidence"] for culprit in done.document["culprits"]}
    assert evidence["rail 1 of gpu3"] == "its pod has no address of rail 1 (10.65.0.0/16)"
    reason = "7 of 7 ports, such as gpu1 rail 0: no RDMA device in its pod has a GID of 10.64.0."  # none is here
    assert evidence["the fabric"].startswith(reason)
    assert cluster_with_kubelets.count_objects() == 0
    assert done.events[-2:] == [
        "recorded: Proved is False on gpu3",
        "not recorded: gpu[1-2,4] have no RailNode",
    ]


def test_a_worker_that_dies_costs_its_round_which_the_next_one_repeats(cluster_with_kubelets: Cluster) -> None:
    kubelets = cluster_with_kubelets.kubelets

    def kill_one(line: str) -> None:
        if line.startswith("ping: round 1 of 3"):
            kubelets.holds = True
            next(process for name, process in kubelets.processes.items() if name.endswith("-2")).kill()
        elif line.startswith("ping: round 2 of 3"):
            kubelets.holds = False

    done = cluster_with_kubelets.prove("--rungs", "ping", react=kill_one)
    assert done.status == 3, done.events
    assert count_verdicts(done, "ping") == {"pass": 12}, done.events
    assert "gpu3 was lost: its worker died, and kubelet has started another; its worker is started again" in done.events
    assert "ping: round 2 is repeated for the 2 tests that were lost" in done.events


@pytest.mark.nightly("its rounds take twenty seconds, as those of the test above")
def test_a_pod_that_is_deleted_is_lost_and_nobody_is_blamed(cluster_with_kubelets: Cluster) -> None:
    def delete_one(line: str) -> None:
        if line.startswith("ping: round 1 of 3"):
            pods = cluster_with_kubelets.client.list("v1", "Pod", SPACE, selector=PROOF)
            cluster_with_kubelets.client.delete(next(pod for pod in pods if pod["metadata"]["name"].endswith("-1")))

    done = cluster_with_kubelets.prove("--rungs", "ping", react=delete_one)
    assert (done.status, done.document["culprits"]) == (3, [])
    [untested] = done.document["untested"]
    assert (untested["nodes"], untested["reason"]) == (
        ["gpu2"],
        "its pod ended, and the new one has other addresses or devices",
    )
    assert "gpu2 was lost: its pod was deleted; its worker is started again" in done.events
    assert set(count_verdicts(done, "ping")) == {"pass", "not-tested"}


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["term", "int"])
def test_a_command_that_is_ended_removes_its_pods(
    cluster_with_kubelets: Cluster, number: signal.Signals, status: int
) -> None:
    def end_it(line: str) -> None:
        if line.startswith("ping: round 1"):
            signal_command(number)

    done = cluster_with_kubelets.prove("--rungs", "ping", react=end_it)
    assert (done.status, done.document) == (status, {})
    assert cluster_with_kubelets.count_objects() == 0


def signal_command(number: signal.Signals) -> None:
    """Send a signal to the command that this process has started."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    for child in children:
        if b"prove" in Path(f"/proc/{child}/cmdline").read_bytes():
            os.kill(int(child), number)


@pytest.mark.nightly("two runs of a screen take half a minute")
def test_a_command_that_is_killed_goes_on_in_new_pods_and_removes_the_old_ones(cluster_with_kubelets: Cluster) -> None:
    def kill_it(line: str) -> None:
        if line == "ping: round 2 of 3":
            signal_command(signal.SIGKILL)

    file = cluster_with_kubelets.folder / "answers.jsonl"
    words = ("--rungs", "ping", "--answers", str(file))
    first = cluster_with_kubelets.prove(*words, react=kill_it)
    assert (first.status, first.document) == (-signal.SIGKILL, {})
    assert cluster_with_kubelets.count_objects()
    sides = Counter(answer["number"] for answer in map(json.loads, file.read_text().splitlines()[1:]))
    is_whole = all(sides[number] == 2 for number in range(4))
    second = cluster_with_kubelets.prove(*words)
    assert count_verdicts(second, "ping") == {"pass": 12}, second.events
    assert ("ping: round 1 of 3" in second.events) != is_whole
    assert cluster_with_kubelets.count_objects() == 0
    assert not file.exists()
