"""`status` on a real API server of its own, so that all it finds is what the tests put there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from trackbed_lab.kubernetes import control_plane, crds
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from tests.cli.json_page import check_document
from tools.pages.crds import iter_crds
from trackbed.cli.main import cli
from trackbed.cluster.api.response import Object
from trackbed.cluster.resources.railnode import API_VERSION

FABRIC = """apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: seen}
spec:
  nodes: [{hosts: "seen-[0-1]", ports: [{pci: "0000:11:00.0"}, {pci: "0000:12:00.0"}]}]
  rails: 2
  addressing: {scheme: node-subnet, ipv4: 10.64.0.0/15, ipv4NodePrefix: 26}
"""
READY = [{"type": "Ready", "status": "True"}]
DOWN = [{"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "no network"}]
RAILS = {"trackbed.dev/rail0": "8", "trackbed.dev/rail1": "8"}


@pytest.fixture
def server(tmp_path: Path, control_plane_programs: Path) -> Iterator[Path]:
    with control_plane.run_control_plane(tmp_path / "server", control_plane_programs, controllers=False) as kubeconfig:
        yield kubeconfig


@pytest.fixture
def client(server: Path) -> Iterator[BlockingClient]:
    with connect(str(server)) as blocking_client:
        yield blocking_client


@pytest.fixture
def fabric(tmp_path: Path) -> str:
    (tmp_path / "fabric.yaml").write_text(FABRIC)
    return str(tmp_path / "fabric.yaml")


def run(server: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, [*words, "--kubeconfig", str(server)])


def installed(server: Path, fabric: str) -> Result:
    """Stack native, without charts; its gates are not waited for."""
    return run(server, "apply", "cluster", "native", "-f", fabric, "--yes", "--wait", "0", "--skip", "all")


def write(client: BlockingClient, body: Object, status: Any) -> None:
    client.apply({**body, "status": status}, subresource="/status", manager="controller", force=True)


def node(client: BlockingClient, name: str, conditions: list[dict[str, str]], rails: dict[str, str]) -> None:
    body: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    client.apply(body)
    write(client, body, {"conditions": conditions, "allocatable": rails})


def agents(client: BlockingClient) -> None:
    """Every agent serves."""
    counts = ("desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable", "currentNumberScheduled")
    metadata = {"name": "trackbed-agent", "namespace": "trackbed-system"}
    generation = client.get("apps/v1", "DaemonSet", **metadata)["metadata"]["generation"]
    status = {"observedGeneration": generation, **dict.fromkeys(counts, 2), "numberMisscheduled": 0, "numberReady": 2}
    write(client, {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata}, status)


def pod(client: BlockingClient, name: str, **rails: str) -> None:
    limits = {f"trackbed.dev/{rail}": count for rail, count in rails.items()}
    container = {"name": "main", "image": "example.com/x", "resources": {"limits": limits}}
    spec = {"containers": [container], "nodeName": "seen-0", "automountServiceAccountToken": False}
    client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
    client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def rules() -> Object:
    """NFD's kind of rules, as far as a server must know it."""
    names = {"plural": "nodefeaturerules", "kind": "NodeFeatureRule"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "nfd.k8s-sigs.io", "scope": "Cluster", "names": names, "versions": [version]}
    metadata = {"name": "nodefeaturerules.nfd.k8s-sigs.io"}
    return {"apiVersion": crds.API, "kind": "CustomResourceDefinition", "metadata": metadata, "spec": spec}


def test_a_cluster_goes_from_nothing_to_all_that_holds(server: Path, client: BlockingClient, fabric: str) -> None:
    nothing = run(server, "status")
    assert (nothing.exit_code, nothing.stdout.splitlines()[-1]) == (
        1,
        "no stack of Trackbed is on this cluster: `trackbed apply cluster STACK -f fabric.yaml` puts one there",
    )
    installed(server, fabric)
    node(client, "seen-0", DOWN, {})
    half = run(server, "status", "-f", fabric)
    assert half.exit_code == 1
    assert [line.split() for line in half.stdout.splitlines()[1:2]] == [
        ["trackbed-seen-native", "default", "10", "1", "broke", "off"]
    ]
    assert half.stdout.splitlines()[3:] == [
        "WAITS FOR                                                    TRACKBED-SEEN-NATIVE",
        "daemonset/trackbed-agent: rolled-out                         stuck",
        "2 nodes: allocatable trackbed.dev/rail0, trackbed.dev/rail1  stuck",
        "",
        "0 of 2 nodes are as they should be",
        "NODE    FABRIC  RAILS  IN USE  STATE",
        (
            "seen-0  -       0      0 of 0  not Ready: KubeletNotReady: no network; "
            "offers no trackbed.dev/rail0, trackbed.dev/rail1"
        ),
        "seen-1  -       0      0 of 0  not in the cluster",
        "trackbed-seen-native: its last run was interrupted: run `trackbed apply cluster` again, or with --undo",
        "trackbed-seen-native: DaemonSet trackbed-agent: no controller has seen it yet",
        (
            "trackbed-seen-native: what to do: `kubectl describe daemonset trackbed-agent --namespace trackbed-system` "
            "has its events, `kubectl get pods --namespace trackbed-system` its pods"
        ),
        "trackbed-seen-native: 1 of 2 nodes are not in the cluster: seen-1",
        "trackbed-seen-native: 1 of 2 nodes are down: seen-0 (not Ready: KubeletNotReady: no network)",
        (
            "trackbed-seen-native: what to do: join nodes that are not in the cluster under the plan's names, or take "
            "them out of the Fabric; `kubectl describe node NAME` says why a node is not Ready; bring it up, or delete "
            "it and take it out"
        ),
        "`trackbed doctor` on a node says why it does not offer a rail",
    ]
    for name in ("seen-0", "seen-1"):
        node(client, name, READY, RAILS)
    agents(client)
    broken = json.loads(run(server, "status", "-f", fabric, "-o", "json").stdout)
    assert [(gate["holds"], stack["run"]) for stack in broken["stacks"] for gate in stack["gates"]] == [
        (True, "begun")
    ] * 2
    assert broken["holds"] is False
    assert installed(server, fabric).exit_code == 0
    pod(client, "job", rail0="1", rail1="1")
    whole = run(server, "status", "-f", fabric, "-o", "json")
    assert whole.exit_code == 0, whole.stdout
    report = json.loads(whole.stdout)
    check_document("status", report)
    assert report["holds"] is True
    assert [(stack["members"], stack["generation"], stack["run"]) for stack in report["stacks"]] == [(10, 1, "done")]
    assert [(node["name"], node["rails"], node["used"], node["allocatable"]) for node in report["nodes"]] == [
        ("seen-0", 2, 2, 16),
        ("seen-1", 2, 0, 16),
    ]


def test_a_pod_that_does_not_start_is_named_with_the_cause_first(
    server: Path, client: BlockingClient, fabric: str
) -> None:
    for name in ("seen-0", "seen-1"):
        node(client, name, READY, RAILS)
    installed(server, fabric)
    agents(client)
    assert installed(server, fabric).exit_code == 0
    pod(client, "job", rail0="1")
    client.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "job.1", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "job"},
            "reason": "FailedCreatePodSandBox",
            "message": 'plugin type="trackbed" failed (add): rail 0: all 15 addresses are taken\x1b[2J',
            "type": "Warning",
        }
    )
    shown = run(server, "status", "-f", fabric)
    assert shown.exit_code == 1
    lines = shown.stdout.splitlines()
    assert lines[lines.index("2 of 2 nodes are as they should be") + 4 :] == [
        "pods: default/job on seen-0: all 15 addresses of rail 0 are in use on this node (rails-used-up)",
        ("pods: what to do: End a pod on this node, or raise `addressing.podAddresses` or `vfs.count` in the Fabric."),
        'pods: reported: plugin type="trackbed" failed (add): rail 0: all 15 addresses are taken\\x1b[2J',
    ]


def test_without_a_fabric_daemonsets_are_judged_and_nodes_that_have_rails(
    server: Path, client: BlockingClient, fabric: str
) -> None:
    installed(server, fabric)
    agents(client)
    node(client, "with-rails", READY, {**RAILS, "trackbed.dev/rail1": "0"})
    node(client, "without", READY, {"cpu": "8"})
    report = json.loads(run(server, "status", "-o", "json").stdout)
    assert [(gate["what"], gate["holds"]) for gate in report["stacks"][0]["gates"]] == [
        ("daemonset/trackbed-agent: rolled-out", True)
    ]
    assert [(node["name"], node["wrong"]) for node in report["nodes"]] == [
        ("with-rails", ["offers no trackbed.dev/rail1"])
    ]
    assert report["holds"] is False


def test_the_label_is_judged_where_a_stack_needs_it(server: Path, client: BlockingClient, tmp_path: Path) -> None:
    fabric = tmp_path / "move.yaml"
    fabric.write_text(FABRIC + "  pods: {mode: move}\n")
    node(client, "seen-0", READY, {})
    crds.install_crds(client, [rules()])
    done = run(server, "apply", "cluster", "dranet", "-f", str(fabric), "--yes", "--wait", "0", "--skip", "all")
    assert (done.exit_code, "no node has label trackbed.dev/fabric=seen" in done.stderr) == (1, True), done.output
    report = json.loads(run(server, "status", "-f", str(fabric), "-o", "json").stdout)
    assert report["nodes"][0]["wrong"] == ["no label trackbed.dev/fabric=seen"]
    assert report["stacks"][0]["gates"][0] == {
        "what": "nodes with label trackbed.dev/fabric=seen",
        "holds": False,
        "missing": ["0 of 2 nodes have it"],
        "remedy": "compare node and port names with those in the NodeFeatureRule, and see that NFD runs",
    }


def fabric_status(client: BlockingClient, name: str, state: str, **counts: int) -> None:
    body: Object = {"apiVersion": API_VERSION, "kind": "Fabric", "metadata": {"name": name}}
    hosts = {"nodes": [{"hosts": f"{name}-[0-99]"}], "rails": 2}
    client.apply({**body, "spec": {**hosts, "addressing": {"scheme": "shared-subnet", "ipv4": "10.0.0.0/8"}}})
    conditions = [{"type": "Progressing", "status": "False", "reason": state, "message": f"{state} it is"}]
    write(client, body, {**counts, "conditions": conditions} if state else {})


def rail_node(client: BlockingClient, name: str, stage: str, why: str = "") -> None:
    body: Object = {"apiVersion": API_VERSION, "kind": "RailNode", "metadata": {"name": name}}
    client.apply({**body, "spec": {"fabric": "train", "slot": int(name.rpartition("-")[2])}})
    since = datetime.now(UTC) - timedelta(hours=5)
    rolled = {"type": "Rolled", "status": "False", "reason": stage, "message": why}
    write(client, body, {"conditions": [{**rolled, "lastTransitionTime": since.strftime("%Y-%m-%dT%H:%M:%SZ")}]})


def test_fabrics_are_told_as_kubectl_does_and_nodes_that_are_not_sound(server: Path, client: BlockingClient) -> None:
    crds.install_crds(client, list(iter_crds()))
    for number in range(2):
        rail_node(client, f"train-{number}", "Sound")
    fabric_status(client, "train", "Complete", nodes=2, sound=2, offered=0)
    whole = run(server, "status")
    assert whole.exit_code == 0, whole.output
    assert whole.stdout.splitlines() == [
        "FABRIC  NODES  SOUND  CHANGING  WAITING  FAILED  ABSENT  OFFERED  CONSISTENT  STATE     WHY",
        "train   2      2      0         0        0       0       0        -           Complete  Complete it is",
        "",
        "0 of 0 nodes are as they should be",
    ]
    for number in range(2, 44):
        rail_node(client, f"train-{number}", "Waiting", "mtu differs")
    rail_node(client, "train-44", "Failed", "rail 3: no such device")
    fabric_status(client, "train", "Halted", nodes=45, sound=2, failed=1, waiting=42)
    fabric_status(client, "unseen", "")
    half = run(server, "status")
    lines = half.stdout.splitlines()
    assert half.exit_code == 1
    assert lines[1].split() == ["train", "45", "2", "0", "42", "1", "0", "-", "-", "Halted", "Halted", "it", "is"]
    assert lines[2].split(maxsplit=10)[7:] == ["-", "-", "-", "no controller has seen it"]
    assert [" ".join(line.split()) for line in lines[4:7]] == [
        "NODE FABRIC STAGE SINCE WHY",
        "train-44 train Failed 5h rail 3: no such device",
        "train-10 train Waiting 5h mtu differs",
    ]
    assert lines[45] == "and 3 more; -o json has all"
    report = json.loads(run(server, "status", "-o", "json").stdout)
    assert (report["holds"], [fabric["state"] for fabric in report["fabrics"]]) == (False, ["Halted", ""])
    assert len(report["unsound"]) == 43
    unsound = {"name": "train-44", "fabric": "train", "stage": "Failed", "since": "5h", "why": "rail 3: no such device"}
    assert report["unsound"][0] == unsound


def test_a_fabric_that_cannot_be_planned_or_failed_does_not_hold(server: Path, client: BlockingClient) -> None:
    crds.install_crds(client, list(iter_crds()))
    for state, holds in {"Rolling": True, "Paused": True, "Failed": False, "Halted": False}.items():
        fabric_status(client, "train", state, nodes=2)
        assert json.loads(run(server, "status", "-o", "json").stdout)["holds"] is holds, state
    body: Object = {"apiVersion": API_VERSION, "kind": "Fabric", "metadata": {"name": "train"}}
    accepted = {"type": "Accepted", "status": "False", "reason": "Invalid", "message": "no room"}
    write(client, body, {"conditions": [accepted]})
    report = json.loads(run(server, "status", "-o", "json").stdout)
    assert (report["holds"], report["fabrics"][0]["state"], report["fabrics"][0]["why"]) == (
        False,
        "Invalid",
        "no room",
    )


def _write_comparison(client: BlockingClient, status: str, message: str, *findings: Object) -> None:
    condition = {"type": "Consistent", "status": status, "reason": "Test", "message": message}
    body: Object = {"apiVersion": API_VERSION, "kind": "Fabric", "metadata": {"name": "train"}}
    write(client, body, {"nodes": 2, "sound": 2, "conditions": [condition], "findings": list(findings)})


def test_faults_between_nodes_are_shown_and_what_is_unknown(server: Path, client: BlockingClient) -> None:
    crds.install_crds(client, list(iter_crds()))
    fabric_status(client, "train", "")
    ends = [{"node": "train-0", "rail": 1}, {"node": "train-2"}]
    fault = {"code": "vfs-mac-duplicate", "verdict": "fail", "message": "MACs are unique", "ends": ends, "endCount": 3}
    _write_comparison(client, "False", "1 fault between nodes", fault)
    broken = run(server, "status")
    assert (broken.exit_code, broken.stdout.splitlines()[1].split()[8]) == (1, "False")
    assert [" ".join(line.split()) for line in broken.stdout.splitlines()[2:5]] == [
        "",
        "FAULT FABRIC BETWEEN WHY",
        "vfs-mac-duplicate train train-0 rail 1, train-2 and 1 more MACs are unique",
    ]
    report = json.loads(run(server, "status", "-o", "json").stdout)
    assert report["fabrics"][0]["findings"] == [fault]
    _write_comparison(client, "Unknown", "not compared: 1 of 2 nodes: train-1: x")
    unknown = run(server, "status")
    assert (unknown.exit_code, unknown.stdout.splitlines()[2]) == (0, "train: not compared: 1 of 2 nodes: train-1: x")
    _write_comparison(client, "False", "firmware", {**fault, "verdict": "warn"})
    assert run(server, "status").exit_code == 0


def test_a_server_that_does_not_answer_is_unknown_and_no_kubeconfig_is_wrong_use(tmp_path: Path, server: Path) -> None:
    nowhere = tmp_path / "nowhere"
    nowhere.write_text(server.read_text().replace("https://127.0.0.1:", "https://127.0.0.2:"))
    assert run(nowhere, "status").exit_code == 3
    assert run(tmp_path / "none", "status").exit_code == 2
