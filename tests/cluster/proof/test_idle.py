"""Nodes that jobs use are left out of a proof."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from trackbed.cli.main import cli
from trackbed.cluster.proof.idle import holds_devices
from trackbed.cluster.proof.objects import PROOF

FABRIC = """apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: train}
spec:
  nodes: [{hosts: "idle[1-4]"}]
  rails: 2
  addressing: {scheme: shared-subnet, ipv4: 10.64.0.0/15}
  kubernetes: {stack: network-operator-macvlan}
"""


def pod(resources: dict[str, Any], **spec: object) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": resources}
    return {"spec": {"containers": [container], **spec}}


@pytest.mark.parametrize(
    ("body", "is_busy"),
    [
        (pod({"limits": {"nvidia.com/gpu": "8"}}), True),
        (pod({"requests": {"trackbed.dev/rail0": "1"}}), True),
        (pod({}, resourceClaims=[{"name": "rails"}]), True),
        (pod({}, initContainers=[{"name": "i", "resources": {"limits": {"amd.com/gpu": 1}}}]), True),
        (pod({"limits": {"cpu": "8", "memory": "1Gi", "hugepages-2Mi": "4Mi"}}), False),
        (pod({"limits": {"kubernetes.io/batch": "1", "scheduling.k8s.kubernetes.io/x": "1"}}), False),
        (pod({}), False),
        (pod({"limits": {"nvidia.com/gpu": "0"}, "requests": {"nvidia.com/gpu": "0"}}), False),
        (pod({"limits": {"nvidia.com/gpu": "0", "trackbed.dev/rail0": "1"}}), True),
        (pod({"limits": {"x.example/fuse": "1"}}) | {"metadata": {"ownerReferences": [{"kind": "DaemonSet"}]}}, False),
    ],
    ids=[
        "GPU",
        "rail",
        "claim",
        "init container",
        "usual resources",
        "Kubernetes' own",
        "none",
        "none of a GPU",
        "one rail",
        "DaemonSet",
    ],
)
def test_a_pod_holds_devices_by_extended_resources_and_claims(body: dict[str, Any], *, is_busy: bool) -> None:
    assert holds_devices(body) is is_busy


@pytest.fixture
def client(api_server: Path) -> Iterator[BlockingClient]:
    with connect(str(api_server)) as client:
        client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "idle"}})
        account = {"name": "default", "namespace": "idle"}  # which no controller makes here
        client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        yield client


def place(client: BlockingClient, node: str, resources: dict[str, Any], phase: str = "Running", **labels: str) -> None:
    body = pod(resources, nodeName=node, automountServiceAccountToken=False)
    name = f"{node}-{'-'.join(resources['limits']).replace('/', '-')}"
    metadata = {"name": name, "namespace": "idle", "labels": labels}
    client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **body})
    client.apply(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"phase": phase}},
        subresource="/status",
        force=True,
    )


def test_nodes_of_jobs_are_left_out_and_told(client: BlockingClient, api_server: Path, tmp_path: Path) -> None:
    gpus = {"limits": {"nvidia.com/gpu": "8"}}
    place(client, "idle1", gpus)
    place(client, "idle2", gpus, phase="Succeeded")
    place(client, "idle3", {"limits": {"cpu": "1", "x.example/fuse": "0k"}})
    (tmp_path / "fabric.yaml").write_text(FABRIC)
    words = ["prove", "-f", str(tmp_path / "fabric.yaml"), "--nodes", "all", "--pods", "--idle", "--budget"]
    words += ["--kubeconfig", str(api_server)]
    done = CliRunner().invoke(cli, words)
    assert done.stderr == "idle1: left out, since pods hold devices there\n"
    assert "screen of 3 nodes with 6 ports" in done.stdout
    place(client, "idle4", gpus)
    place(client, "idle3", gpus)
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 3
    assert done.stderr.splitlines() == [
        "idle[1,3-4]: left out, since pods hold devices there",
        "too few nodes are idle, so nothing was tested; run it again later",
    ]


def test_the_pods_of_a_killed_run_keep_no_node_busy_for_the_command_that_goes_on(
    client: BlockingClient, api_server: Path, tmp_path: Path
) -> None:
    rails = {"limits": {"trackbed.dev/rail0": "1"}}
    place(client, "resumed1", rails, **{PROOF: "proof-killed"})
    place(client, "resumed2", rails, **{PROOF: "proof-other"})
    (tmp_path / "fabric.yaml").write_text(FABRIC.replace("idle[1-4]", "resumed[1-4]"))
    header = '{"proof": "of another Fabric", "run": "proof-killed", "at": "2026-11-30"}'
    (tmp_path / "answers").write_text(f"{header}\n{{torn")
    words = ["prove", "-f", str(tmp_path / "fabric.yaml"), "--nodes", "all", "--pods", "--idle", "--image", "x"]
    words += ["--answers", str(tmp_path / "answers"), "--kubeconfig", str(api_server)]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 2  # by its header, once the nodes are chosen
    assert done.stderr.splitlines()[0] == "resumed2: left out, since pods hold devices there"
