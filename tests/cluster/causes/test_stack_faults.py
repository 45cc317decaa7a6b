"""Each fault that users of a stack reported is what the command says first, in the state that the programs leave."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from trackbed_lab.kubernetes import control_plane, crds
from trackbed_lab.kubernetes.blocking import BlockingClient, connect
from trackbed_lab.kubernetes.stack_faults import StackFault, load_stack_faults

from tests.cluster.causes.cleaning import delete_waiting
from tests.cluster.objects import crd
from tests.doctor.tested import list_tested_faults
from trackbed.cli.main import cli
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout.gates import check_gate
from trackbed.cluster.stacks import MODULES
from trackbed.cluster.stacks.stack import Wait

FAULTS = load_stack_faults()
KINDS = {
    "nicclusterpolicies": ("NicClusterPolicy", "mellanox.com"),
    "sriovnetworknodestates": ("SriovNetworkNodeState", "sriovnetwork.openshift.io"),
}
FABRIC = """apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: seen}
spec:
  nodes: [{hosts: "seen-[0-1]", ports: [{pci: "0000:11:00.0"}, {pci: "0000:12:00.0"}]}]
  rails: 2
  addressing: {scheme: node-subnet, ipv4: 10.64.0.0/15, ipv4NodePrefix: 26}
"""


def of(*commands: str) -> pytest.MarkDecorator:
    """The faults that these commands name."""
    rows = [fault for fault in FAULTS if fault.command in commands and not (fault.object and fault.object.finalizer)]
    return pytest.mark.parametrize("fault", rows, ids=lambda fault: f"{fault.stack}-{fault.id}")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, control_plane_programs: Path) -> Iterator[Path]:
    programs, folder = control_plane_programs, tmp_path_factory.mktemp("server")
    with (
        control_plane.run_control_plane(folder, programs, controllers=False) as kubeconfig,
        connect(str(kubeconfig)) as client,
    ):
        client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
        crds.install_crds(client, [crd(plural, kind, group) for plural, (kind, group) in KINDS.items()])
        yield kubeconfig


@pytest.fixture
def client(server: Path) -> Iterator[BlockingClient]:
    with connect(str(server)) as blocking_client:
        yield blocking_client
        delete_waiting(blocking_client)


def run(*words: str, text: str | None = None) -> list[str]:
    """The lines of a command's standard output."""
    return CliRunner().invoke(cli, words, input=text).stdout.splitlines()


def make(client: BlockingClient, fault: StackFault) -> None:
    """The pod, event and slice of a fault, as kubelet, scheduler, Multus and drivers write them."""
    if fault.slice:
        pool = {"name": "gpu-0", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": fault.slice, "pool": pool, "nodeName": "gpu-0", "devices": [{"name": "rail0"}]}
        head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "rails"}}
        client.create({**head, "spec": spec})
    if not fault.controller:
        make_pod(client, fault)
    if fault.message and not (fault.container or fault.refusal):
        make_event(client, fault)


def make_pod(client: BlockingClient, fault: StackFault) -> None:
    head: Object = {"apiVersion": "v1", "kind": "Pod"}
    metadata = {"name": "train", "annotations": {"k8s.v1.cni.cncf.io/networks": "rail0"}}
    node = {} if fault.unscheduled else {"nodeName": "gpu-0"}
    spec = {"containers": [{"name": "main", "image": "x"}], "automountServiceAccountToken": False, **node}
    client.create({**head, "metadata": metadata, "spec": spec})
    status: dict[str, Any] = {"phase": "Pending"}
    if fault.refusal:
        status = {"phase": "Failed", "reason": fault.refusal, "message": fault.message}
    if fault.unscheduled:
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": fault.unscheduled}
        status["conditions"] = [condition]
    if fault.container:
        state = {"waiting": {"reason": fault.container, "message": fault.message}}
        status["containerStatuses"] = [
            {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        ]
    body = {**head, "metadata": {"name": "train", "namespace": "default"}, "status": status}
    client.apply(body, subresource="/status", manager="kubelet", force=True)


def make_event(client: BlockingClient, fault: StackFault) -> None:
    about = {"kind": fault.controller or "Pod", "namespace": "default", "name": "train"}
    client.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "train.1", "namespace": "default"},
            "involvedObject": about,
            "reason": "FailedCreate" if fault.controller else fault.reason,
            "message": fault.message,
            "type": "Warning",
            "lastTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
    )


@of("status")
def test_status_names_the_cause_of_the_pod_first(fault: StackFault, server: Path, client: BlockingClient) -> None:
    make(client, fault)
    lines = [line for line in run("status", "--kubeconfig", str(server)) if line.startswith("pods: ")]
    assert lines, fault
    assert lines[0].endswith(f" ({fault.names})"), lines


@of("gate")
def test_a_gate_names_the_cause_in_the_objects_status_first(fault: StackFault, client: BlockingClient) -> None:
    reported = fault.object
    assert reported
    group = next(group for kind, group in KINDS.values() if kind == reported.kind)
    metadata = {"name": reported.name, "annotations": reported.annotations}
    if reported.namespace:
        metadata["namespace"] = reported.namespace
        client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": reported.namespace}})
    body: Object = {"apiVersion": f"{group}/v1", "kind": reported.kind, "metadata": metadata}
    client.apply(body, force=True)
    head = {key: value for key, value in metadata.items() if key != "annotations"}
    client.apply({**body, "metadata": head, "status": reported.status}, subresource="/status", force=True)
    if reported.budget:
        make_budget(client, reported.name)
    wait = Wait(f"{reported.kind}.{group}/{reported.name}", reported.condition, reported.namespace or None)
    gate = client.run(check_gate(client.dynamic, wait))
    client.delete(body)
    assert not gate.holds
    assert fault.names in gate.missing[0]


def make_budget(client: BlockingClient, node: str) -> None:
    """A pod on a node with a budget that allows no disruption."""
    labels = {"app": "web"}
    spec = {"containers": [{"name": "main", "image": "x"}], "automountServiceAccountToken": False, "nodeName": node}
    client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "labels": labels}, "spec": spec})
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
    }
    client.apply({**budget, "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}})
    counts = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    client.apply({**budget, "status": counts}, subresource="/status", force=True)


def test_an_object_that_was_deleted_and_does_not_go_is_named_first(
    server: Path, client: BlockingClient, tmp_path: Path
) -> None:
    """A ServiceAccount stands for the SriovNetwork; its finalizer has a slash, as Kubernetes' own kinds must have."""
    keeper = "sriovnetwork.openshift.io/netattdef"
    (tmp_path / "fabric.yaml").write_text(FABRIC)
    access = ("-f", str(tmp_path / "fabric.yaml"), "--kubeconfig", str(server))
    run("apply", "cluster", "native", *access, "--yes", "--wait", "0", "--skip", "all")
    account: Object = {"apiVersion": "v1", "kind": "ServiceAccount"}
    account["metadata"] = {"name": "trackbed-agent", "namespace": "trackbed-system", "finalizers": [keeper]}
    client.apply(account, manager="operator")
    client.delete(account)
    lines = [line for line in run("status", *access) if line.startswith("trackbed-seen-native: ")]
    assert lines[1].endswith(f"waits for {keeper}"), lines
    account["metadata"]["finalizers"] = []
    client.apply(account, manager="operator")
    run("apply", "cluster", "native", *access, "--yes", "--remove")


@of("lint")
def test_lint_names_the_rule_first(fault: StackFault) -> None:
    problems = json.loads("\n".join(run("lint", "-", "-o", "json", text=fault.manifest)))
    worst = [problem for problem in problems if problem["severity"] != "note"]
    assert worst[0]["rule"] == fault.names, problems


@of("explain")
def test_explain_names_the_cause_of_the_message_first(fault: StackFault) -> None:
    assert run("explain", fault.message)[0].startswith(f"{fault.names} (")


@of("doctor")
def test_doctor_names_the_fault_first_on_a_host_that_has_it(fault: StackFault) -> None:
    assert fault.names in list_tested_faults()


def test_each_of_eight_stacks_has_five_faults_and_there_are_more_than_forty() -> None:
    counts = Counter(fault.stack for fault in FAULTS)
    assert set(counts) <= set(MODULES)
    assert len(counts) == 8
    assert min(counts.values()) >= 5
    assert sum(counts.values()) >= 40


def test_each_fault_has_a_public_report_and_is_there_once() -> None:
    assert len({(fault.stack, fault.id) for fault in FAULTS}) == len(FAULTS)
    assert [fault.id for fault in FAULTS if not fault.report.startswith("https://github.com/")] == []
