"""A step is left out where a real API server has its operator under other names; its objects of before are kept."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from trackbed_lab.kubernetes import crds
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from tests.cluster.objects import crd
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout.applyset import ApplySet
from trackbed.cluster.rollout.options import ObjectChange, RunOptions
from trackbed.cluster.rollout.preview import iter_preview
from trackbed.cluster.rollout.stack_run import StackRun
from trackbed.cluster.stacks.install.steps import ApplyFile
from trackbed.cluster.stacks.stack import ForeignObjects

GROUP = "installed.example.com"
OPTIONS = RunOptions("trackbed-test", wait_seconds=0)


@pytest.fixture
def client(api_server: Path) -> Iterator[BlockingClient]:
    with connect(str(api_server)) as live:
        crds.install_crds(live, [crd("subscribers", "Subscriber", GROUP)])
        yield live


@pytest.fixture
def namespace(client: BlockingClient) -> str:
    """A namespace of the test alone."""
    name = f"installed-{secrets.token_hex(4)}"
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


def build_subscriber(namespace: str, name: str) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Subscriber", "metadata": metadata}


def build_step(namespace: str) -> ApplyFile:
    others = ForeignObjects((f"Absent.{GROUP}", f"Subscriber.{GROUP}"), namespace, "ours")
    return ApplyFile("", "the operator", [build_subscriber(namespace, "ours")], yields_to=others)


def apply_step(client: BlockingClient, namespace: str, messages: list[str]) -> list[ObjectChange]:
    run = StackRun(client.dynamic, ApplySet("installed", namespace), OPTIONS, messages.append)
    client.run(run.apply_steps([build_step(namespace)]))
    return run.changes


def test_an_operator_under_another_name_is_reported_and_not_installed_again(
    client: BlockingClient, namespace: str
) -> None:
    client.apply(build_subscriber(namespace, "theirs"))
    messages: list[str] = []
    assert apply_step(client, namespace, messages) == []
    assert messages == [f"leaving out the operator, as the cluster has Subscriber theirs in {namespace}"]
    assert client.find(f"{GROUP}/v1", "Subscriber", "ours", namespace) is None


def test_an_operator_that_was_installed_before_is_kept(client: BlockingClient, namespace: str) -> None:
    assert [change.outcome for change in apply_step(client, namespace, [])] == ["created"]
    client.apply(build_subscriber(namespace, "theirs"))
    preview = iter_preview(client.dynamic, ApplySet("installed", namespace), OPTIONS, [build_step(namespace)])
    assert client.collect(preview) == []
    assert apply_step(client, namespace, []) == []
    assert client.find(f"{GROUP}/v1", "Subscriber", "ours", namespace)
