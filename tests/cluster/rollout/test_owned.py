"""What a manager applied, read back from a real API server's managedFields."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from tests.cluster.stacks.fabric_of import FLAT, fabric
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout.owned import mask_fields, merge_fields, select_owned_fields
from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.stack import iter_objects

NATIVE = [
    {**item, "metadata": {**item["metadata"], "namespace": "owned"}} if "namespace" in item["metadata"] else item
    for item in iter_objects(load_stack("native"), fabric(2, addressing=FLAT))
    if item["kind"] != "Namespace"
]


@pytest.fixture(scope="module")
def client(api_server: Path) -> Iterator[BlockingClient]:
    with connect(str(api_server)) as blocking_client:
        blocking_client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "owned"}})
        yield blocking_client


CONTAINER = {
    "name": "main",
    "image": "example.com/x:1",
    "command": ["a", "b"],
    "env": [{"name": "B", "value": "1"}, {"name": "A", "value": "2"}],
    "ports": [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP", "name": "dns"}],
    "resources": {"limits": {"memory": "1Gi"}},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "owned", "namespace": "default", "labels": {"a": "1"}, "finalizers": ["example.com/keep"]},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"a.b/c": "1"}},
        "template": {"metadata": {"labels": {"a.b/c": "1"}}, "spec": {"containers": [CONTAINER]}},
    },
}


def test_what_was_applied_is_read_back_whatever_others_and_the_server_added(client: BlockingClient) -> None:
    client.apply(DEPLOYMENT, manager="ours")
    metadata = {"name": "owned", "namespace": "default", "annotations": {"theirs": "1"}}
    theirs = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}
    client.apply(theirs, manager="theirs")
    live = client.get("apps/v1", "Deployment", "owned", "default")
    assert select_owned_fields(live, "ours") == DEPLOYMENT
    assert select_owned_fields(live, "theirs") == theirs
    assert select_owned_fields(live, "nobody")["metadata"] == {"name": "owned", "namespace": "default"}


@pytest.mark.parametrize("body", NATIVE, ids=[f"{body['kind']} {body['metadata']['name']}" for body in NATIVE])
def test_applying_what_was_read_back_changes_nothing(client: BlockingClient, body: Object) -> None:
    first = client.apply(body, manager="ours").body
    again = client.apply(select_owned_fields(first, "ours"), manager="ours").body
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    client.delete(body)


def test_fields_of_another_version_of_the_kind_are_not_guessed() -> None:
    entry = {"manager": "ours", "operation": "Apply", "apiVersion": "v1beta1", "fieldsV1": {"f:data": {"f:a": {}}}}
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "managedFields": [entry]},
        "data": {"a": "1"},
    }
    assert select_owned_fields(body, "ours") == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}


def test_a_mask_takes_what_the_other_has_and_a_merge_has_both() -> None:
    body = {"a": {"b": 1, "c": [1, 2]}, "d": 3}
    assert mask_fields(body, {"a": {"c": [9], "x": 1}, "y": 2}) == {"a": {"c": [1, 2]}}
    assert merge_fields({"a": {"b": 1}, "d": 3}, {"a": {"c": 2}, "d": 4}) == {"a": {"b": 1, "c": 2}, "d": 4}
