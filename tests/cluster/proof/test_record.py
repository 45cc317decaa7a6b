"""Outcomes of a proof on a real API server: conditions of RailNodes, events, taints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from tests.kinds import installed
from trackbed.cluster.proof.record import Recorded, has_railnodes, record_outcomes
from trackbed.cluster.resources.railnode import API_VERSION, KIND, UNPROVED_TAINT
from trackbed.prove.node_outcomes import NodeOutcome

NODE = "proof-record-1"
PROVED = NodeOutcome(NODE, "proved", "Passed", "26 of 26 tests passed")
BLAMED = NodeOutcome(NODE, "blamed", "Blamed", f"rail 1 of {NODE} (write_bw): 5 of 6 tests failed; swap the cable")
UNKNOWN = NodeOutcome(NODE, "unknown", "NotTested", "ping: ssh does not reach it")
OTHER_TAINT = {"key": "example.com/own", "effect": "NoSchedule"}


@pytest.fixture
def client(api_server: Path) -> Iterator[BlockingClient]:
    with connect(str(api_server)) as client:
        installed(client)
        railnode = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": NODE}}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}}
        client.apply({**railnode, "spec": {"fabric": "record", "slot": 1}})
        client.create({**node, "spec": {"taints": [OTHER_TAINT]}})
        yield client
        for body in (railnode, node):
            client.delete(body)


def record(client: BlockingClient, *outcomes: NodeOutcome, taints: bool = False) -> Recorded:
    return client.run(record_outcomes(client.dynamic.client, outcomes, taints=taints))


def read_conditions(client: BlockingClient) -> dict[str, dict[str, Any]]:
    status = client.get(API_VERSION, KIND, NODE)["status"]
    return {condition["type"]: condition for condition in status["conditions"]}


def list_events(client: BlockingClient) -> list[tuple[str, str]]:
    uid = client.get(API_VERSION, KIND, NODE)["metadata"]["uid"]
    events = client.list("events.k8s.io/v1", "Event", "default", fields=f"regarding.uid={uid}")
    return sorted((event["type"], event["reason"]) for event in events)


def list_taints(client: BlockingClient) -> list[str]:
    """Return the keys of a Node's taints, without those that Kubernetes adds for its conditions."""
    keys = [taint["key"] for taint in client.get("v1", "Node", NODE)["spec"].get("taints", [])]
    return [key for key in keys if not key.startswith("node.kubernetes.io/")]


def test_the_condition_stands_beside_those_of_others_and_tells_when_it_was_measured(client: BlockingClient) -> None:
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": NODE}}
    prepared = {"type": "Prepared", "status": "True", "reason": "AsPlanned", "message": "", "lastTransitionTime": ""}
    client.apply({**body, "status": {"conditions": [prepared]}}, subresource="/status", manager="trackbed-agent")
    assert record(client, PROVED) == Recorded({"True": [NODE]}, [], {})
    conditions = read_conditions(client)
    assert set(conditions) == {"Prepared", "Proved"}
    assert (conditions["Proved"]["status"], conditions["Proved"]["reason"]) == ("True", "Passed")
    measured_at, _, message = conditions["Proved"]["message"].partition(": ")
    assert measured_at == f"measured at {conditions['Proved']['lastTransitionTime']}"
    assert message == PROVED.message
    assert list_events(client) == [("Normal", "Proved")]


def test_a_repeated_outcome_writes_no_second_event_and_a_new_one_does(client: BlockingClient) -> None:
    for outcome in (PROVED, PROVED._replace(message="24 of 24 tests passed"), BLAMED, BLAMED, UNKNOWN):
        record(client, outcome)
    assert list_events(client) == [("Normal", "ProofOpen"), ("Normal", "Proved"), ("Warning", "NotProved")]
    assert read_conditions(client)["Proved"]["status"] == "Unknown"


def test_a_blamed_node_is_tainted_until_it_is_proved_and_taints_of_others_stay(client: BlockingClient) -> None:
    record(client, BLAMED)
    assert list_taints(client) == ["example.com/own"]
    record(client, BLAMED, taints=True)
    assert list_taints(client) == ["example.com/own", UNPROVED_TAINT]
    record(client, UNKNOWN, taints=True)
    assert list_taints(client) == ["example.com/own", UNPROVED_TAINT]
    record(client, PROVED, taints=True)
    assert list_taints(client) == ["example.com/own"]


def test_a_node_without_a_railnode_is_named_and_the_others_are_recorded(client: BlockingClient) -> None:
    recorded = record(client, PROVED._replace(node="proof-record-none"), PROVED, taints=True)
    assert recorded == Recorded({"True": [NODE]}, ["proof-record-none"], {})
    assert read_conditions(client)["Proved"]["status"] == "True"


def test_a_refused_write_is_told_and_the_others_are_recorded(
    client: BlockingClient, api_server: Path, tmp_path: Path
) -> None:
    other = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "proof-record-2"}}
    client.apply({**other, "spec": {"fabric": "record", "slot": 2}})
    try:
        with connect(str(create_account(client, api_server, tmp_path))) as account:
            recorded = record(account, PROVED._replace(node="proof-record-2"), PROVED)
    finally:
        client.delete(other)
    assert (recorded.nodes, recorded.absent) == ({"True": [NODE]}, [])
    assert list(recorded.failures) == ["proof-record-2"]
    assert recorded.failures["proof-record-2"].endswith("(403 Forbidden)")


def create_account(client: BlockingClient, admin: Path, folder: Path) -> Path:
    """Create an account that may write the status of NODE alone; return its kubeconfig."""
    rules = [
        {"apiGroups": ["trackbed.dev"], "resources": ["railnodes"], "verbs": ["list"]},
        {"apiGroups": ["trackbed.dev"], "resources": ["railnodes/status"], "resourceNames": [NODE], "verbs": ["patch"]},
    ]
    rbac, role = "rbac.authorization.k8s.io", {"kind": "ClusterRole", "name": "proof-record"}
    subject = {"kind": "ServiceAccount", "name": "proof-record", "namespace": "default"}
    metadata = {"name": "proof-record"}
    client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**metadata, "namespace": "default"}})
    client.apply({"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules})
    binding = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", "metadata": metadata}
    client.apply({**binding, "roleRef": {"apiGroup": rbac, **role}, "subjects": [subject]})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    path = "/api/v1/namespaces/default/serviceaccounts/proof-record/token"
    config = json.loads(admin.read_text())
    config["users"][0]["user"] = {"token": client.run(client.dynamic.client.create(path, request))["status"]["token"]}
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    return kubeconfig


def test_a_message_of_any_length_is_accepted_and_its_cut_is_told(client: BlockingClient) -> None:
    record(client, BLAMED._replace(message="é\n" * 5000))
    message = read_conditions(client)["Proved"]["message"]
    assert (len(message), message[-4:]) == (1024, " ...")
    assert list_events(client) == [("Warning", "NotProved")]


def test_a_cluster_with_a_railnode_can_be_recorded_to(client: BlockingClient) -> None:
    assert client.run(has_railnodes(client.dynamic.client))
