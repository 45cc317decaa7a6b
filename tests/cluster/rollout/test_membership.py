"""Objects of another ApplySet are refused on a real API server, whatever the options, and never changed."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from trackbed_lab.kubernetes import crds
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from tests.cluster.objects import crd
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout import history, recorded_run
from trackbed.cluster.rollout.applyset import PART_OF, ApplySet
from trackbed.cluster.rollout.options import ForeignMemberError, RunOptions
from trackbed.cluster.rollout.preview import iter_preview
from trackbed.cluster.rollout.stack_run import StackRun
from trackbed.cluster.stacks.install.steps import ApplyFile, Step

GROUP = "membership.example.com"


@pytest.fixture
def client(api_server: Path) -> Iterator[BlockingClient]:
    with connect(str(api_server)) as blocking_client:
        yield blocking_client


@pytest.fixture
def namespace(client: BlockingClient) -> str:
    """A namespace of the test alone."""
    name = f"members-{secrets.token_hex(4)}"
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


def build_config(namespace: str, name: str = "shared", **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def apply_objects(client: BlockingClient, applyset: ApplySet, *objects: Object, force: bool = False) -> dict[str, str]:
    options = RunOptions("trackbed-test", force=force, wait_seconds=0)
    run = StackRun(client.dynamic, applyset, options, lambda _: None)
    client.run(run.apply_steps([ApplyFile("", "the maps", list(objects))]))
    return {change.what.split()[1]: change.outcome for change in run.changes}


@pytest.mark.parametrize("force", [False, True], ids=["plain", "force"])
def test_an_object_of_another_set_is_refused_and_left_as_it_is(
    client: BlockingClient, namespace: str, *, force: bool
) -> None:
    first, second = ApplySet("first", namespace), ApplySet("second", namespace)
    apply_objects(client, first, build_config(namespace, a="1"))
    before = client.get("v1", "ConfigMap", "shared", namespace)
    with pytest.raises(ForeignMemberError) as caught:
        apply_objects(client, second, build_config(namespace, a="2"), build_config(namespace, "free"), force=force)
    assert str(caught.value) == (
        "the maps: objects belong to other ApplySets and are left alone, also with --force; first remove what they "
        "belong to (`trackbed apply cluster STACK -f FILE --remove`, with its Fabric and stack):\n"
        f"  ConfigMap shared in {namespace} is part of first in namespace {namespace}"
    )
    assert client.get("v1", "ConfigMap", "shared", namespace) == before
    client.run(StackRun(client.dynamic, second, RunOptions("trackbed-test"), lambda _: None).delete_members())
    assert client.find("v1", "ConfigMap", "shared", namespace) == before
    assert client.find("v1", "ConfigMap", "free", namespace) is None


def test_a_preview_shows_the_refusal_also_of_an_undo(client: BlockingClient, namespace: str) -> None:
    apply_objects(client, ApplySet("first", namespace), build_config(namespace, a="1"))
    step: Step = ApplyFile("", "the maps", [build_config(namespace, a="2")])
    forced = RunOptions("trackbed-test", force=True)
    for options in (forced, recorded_run.to_undo_options(forced)):
        preview = iter_preview(client.dynamic, ApplySet("second", namespace), options, [step])
        (change,) = client.collect(preview)
        assert (change.outcome, change.fields) == (
            "refused",
            (f"ConfigMap shared in {namespace} is part of first in namespace {namespace}",),
        )


def test_a_set_without_a_parent_is_named_by_its_id(client: BlockingClient, namespace: str) -> None:
    body = build_config(namespace, a="1")
    client.apply({**body, "metadata": {**body["metadata"], "labels": {PART_OF: "applyset-unknown"}}})
    with pytest.raises(ForeignMemberError, match="is part of applyset-unknown, which has no ConfigMap as its parent"):
        apply_objects(client, ApplySet("second", namespace), body, force=True)


def test_a_set_whose_namespace_changed_keeps_its_objects(client: BlockingClient, namespace: str) -> None:
    """A Fabric's kubernetes.namespace is part of the set's id, so that the same stack has another id afterwards."""
    other = f"{namespace}-b"
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    apply_objects(client, ApplySet("same", namespace), build_config(namespace, a="1"))
    assert apply_objects(client, ApplySet("same", other), build_config(namespace, a="1")) == {"shared": "changed"}
    labels = client.get("v1", "ConfigMap", "shared", namespace)["metadata"]["labels"]
    assert labels == {PART_OF: ApplySet("same", other).id}


def test_a_second_stack_that_needs_the_nic_cluster_policy_is_told_how_to_go_on(
    client: BlockingClient, namespace: str
) -> None:
    crds.install_crds(client, [crd("nicclusterpolicies", "NicClusterPolicy", GROUP)])
    policy = {"apiVersion": f"{GROUP}/v1", "kind": "NicClusterPolicy", "metadata": {"name": namespace}}
    apply_objects(client, ApplySet("first", namespace), policy)
    with pytest.raises(ForeignMemberError, match="the Network Operator reads a single NicClusterPolicy, so Trackbed"):
        apply_objects(client, ApplySet("second", namespace), policy, force=True)


def test_a_forced_step_takes_fields_over_and_its_object_outlives_the_set(
    client: BlockingClient, namespace: str
) -> None:
    """OpenShift's ConfigMap cni-sysctl-allowlist: the platform creates it with values of its own."""
    applyset = ApplySet("first", namespace)
    client.apply(build_config(namespace, a="platform"), manager="platform")
    step = ApplyFile("", "sysctls", [build_config(namespace, a="ours")], force=True)
    run = StackRun(client.dynamic, applyset, RunOptions("trackbed-test", wait_seconds=0), lambda _: None)
    packed = client.run(recorded_run.pack_current_state(client.dynamic, applyset, run.options, [step]))
    client.run(recorded_run.apply_forward(run, [step], packed))
    live = client.get("v1", "ConfigMap", "shared", namespace)
    assert (live["data"], "labels" in live["metadata"]) == ({"a": "ours"}, False)
    client.run(run.delete_members())
    assert client.get("v1", "ConfigMap", "shared", namespace)["data"] == {"a": "ours"}


def test_an_undo_restores_what_a_forced_step_took_over(client: BlockingClient, namespace: str) -> None:
    applyset, options = ApplySet("first", namespace), RunOptions("trackbed-test", wait_seconds=0)
    client.apply(build_config(namespace, a="platform"), manager="platform")
    step = ApplyFile("", "sysctls", [build_config(namespace, a="ours")], force=True)
    packed = client.run(recorded_run.pack_current_state(client.dynamic, applyset, options, [step]))
    run = StackRun(client.dynamic, applyset, options, lambda _: None)
    client.run(recorded_run.apply_forward(run, [step], packed))
    record = client.run(history.read_latest_record(client.dynamic, applyset))
    assert record is not None
    undo = StackRun(client.dynamic, applyset, recorded_run.to_undo_options(options), lambda _: None)
    client.run(recorded_run.roll_back(undo, recorded_run.build_undo_steps(record)))
    assert client.get("v1", "ConfigMap", "shared", namespace)["data"] == {"a": "platform"}
