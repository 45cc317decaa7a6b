"""`trackbed prove --from-cluster` against a real API server: the plan of a Fabric with the slots of its RailNodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from tests.kinds import installed
from trackbed.cli.main import cli
from trackbed.cluster.proof.plan import read_plan_of_cluster
from trackbed.cluster.resources.railnode import API_VERSION, KIND

FABRIC: dict[str, Any] = yaml.safe_load("""
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: proof-plan}
spec:
  nodes: [{hosts: "plan[1-4]"}]
  rails: 2
  nodesPerUnit: 4
  addressing: {scheme: shared-subnet, ipv4: 10.64.0.0/15}
  kubernetes: {stack: network-operator-macvlan}
""")


@pytest.fixture
def client(api_server: Path) -> Iterator[BlockingClient]:
    with connect(str(api_server)) as client:
        installed(client)
        railnode = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "plan1"}}
        client.apply({**railnode, "spec": {"fabric": "proof-plan", "slot": 9}})
        client.apply(FABRIC)
        yield client
        client.delete(FABRIC)
        client.delete(railnode)


@pytest.fixture
def prove(
    client: BlockingClient, api_server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    del client
    monkeypatch.chdir(tmp_path)  # no fabric.yaml is here

    def run(*words: str) -> Result:
        return CliRunner().invoke(cli, ["prove", "--nodes", "all", "--budget", "--kubeconfig", str(api_server), *words])

    return run


def test_the_slots_of_the_cluster_are_kept(client: BlockingClient) -> None:
    fabric, plan = client.run(read_plan_of_cluster(client.dynamic.client, "proof-plan"))
    assert fabric.metadata.name == "proof-plan"
    assert {node.name: node.slot for node in plan.nodes} == {"plan1": 9, "plan2": 0, "plan3": 1, "plan4": 2}


def test_a_proof_needs_no_file(prove: Callable[..., Result]) -> None:
    done = prove("--from-cluster", "proof-plan", "-o", "json")
    assert (done.exit_code, json.loads(done.stdout)["nodes"]) == (0, 4), done.output


def test_a_fabric_that_the_cluster_lacks_is_refused(prove: Callable[..., Result]) -> None:
    done = prove("--from-cluster", "nothing")
    assert (done.exit_code, "the cluster has no Fabric nothing; `kubectl get fabrics`" in done.output) == (2, True)


def test_a_fabric_that_is_rolled_back_is_refused(client: BlockingClient, prove: Callable[..., Result]) -> None:
    generation = client.get(API_VERSION, "Fabric", "proof-plan")["metadata"]["generation"]
    annotations = {"trackbed.dev/rollback": str(generation)}
    client.apply({**FABRIC, "metadata": {"name": "proof-plan", "annotations": annotations}})
    done = prove("--from-cluster", "proof-plan")
    assert (done.exit_code, "is rolled back to an earlier spec; name the file" in done.output) == (2, True)


def test_a_file_and_a_fabric_of_the_cluster_are_refused_together(prove: Callable[..., Result]) -> None:
    done = prove("--from-cluster", "proof-plan", "-f", "other.yaml")
    assert (done.exit_code, "-f and --from-cluster both say what to prove" in done.output) == (2, True)
