"""Steps on a real API server: done again they change nothing, and nothing of others is ever touched."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from trackbed_lab.kubernetes import crds
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from tests.cluster.objects import GROUP, crd
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout.applyset import ApplySet, compute_applyset_id, iter_members
from trackbed.cluster.rollout.options import RunOptions, StuckError
from trackbed.cluster.rollout.stack_run import StackRun
from trackbed.cluster.stacks.install.steps import ApplyFile, Step, WaitForLabel
from trackbed.cluster.stacks.stack import Wait

NAMESPACE = "rolled"


class Interrupted(Exception):  # noqa: N818 - stands for whatever ends a run
    """A run is interrupted."""


@pytest.fixture
def client(api_server: Path) -> Iterator[BlockingClient]:
    with connect(str(api_server)) as blocking_client:
        blocking_client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for body in blocking_client.list("v1", "ConfigMap", NAMESPACE):
            blocking_client.delete(body)
        yield blocking_client


@pytest.fixture
def of(request: pytest.FixtureRequest) -> ApplySet:
    """A set of the test's own."""
    return ApplySet(f"set-{abs(hash(request.node.name)) % 10**8}", NAMESPACE)


def config(name: str, namespace: str = NAMESPACE, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def rolled(client: BlockingClient, of: ApplySet, *steps: Step, force: bool = False) -> StackRun:
    run = StackRun(client.dynamic, of, RunOptions("trackbed-test", force=force, wait_seconds=0), lambda _: None)
    client.run(run.apply_steps(steps))
    return run


def outcomes(stack_run: StackRun) -> dict[str, str]:
    return {change.what: change.outcome for change in stack_run.changes}


def names(client: BlockingClient, namespace: str = NAMESPACE) -> set[str]:
    return {body["metadata"]["name"] for body in client.list("v1", "ConfigMap", namespace)}


def test_a_second_run_changes_nothing_and_a_third_what_differs(client: BlockingClient, of: ApplySet) -> None:
    objects = [config("first", a="1"), config("second", a="1")]
    assert outcomes(rolled(client, of, ApplyFile("", "x", objects))) == {
        "ConfigMap first in rolled": "created",
        "ConfigMap second in rolled": "created",
    }
    assert set(outcomes(rolled(client, of, ApplyFile("", "x", objects))).values()) == {"same"}
    third = rolled(client, of, ApplyFile("", "x", [config("first", a="1"), config("second", a="2")]))
    assert list(outcomes(third).values()) == ["same", "changed"]


def test_what_is_wanted_no_longer_is_removed_and_nothing_else(client: BlockingClient, of: ApplySet) -> None:
    client.create(config("of-others", a="1"))
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "own", "namespace": NAMESPACE}}
    rolled(client, of, ApplyFile("", "x", [config("stays"), config("goes"), account]))
    after = rolled(client, of, ApplyFile("", "x", [config("stays")]))
    assert outcomes(after) == {
        "ConfigMap stays in rolled": "same",
        "ConfigMap goes in rolled": "removed",
        "ServiceAccount own in rolled": "removed",
    }
    assert {"stays", "of-others"} <= names(client)
    assert "goes" not in names(client)
    parent = client.get("v1", "ConfigMap", of.name, NAMESPACE)["metadata"]
    assert parent["annotations"]["applyset.kubernetes.io/contains-group-kinds"] == "ConfigMap"


def test_a_namespace_is_never_removed(client: BlockingClient, of: ApplySet) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kept", "labels": {"a": "1"}}}
    rolled(client, of, ApplyFile("", "x", [space, config("inside", "kept")]))
    after = rolled(client, of, ApplyFile("", "x", [config("elsewhere")]))
    assert outcomes(after)["ConfigMap inside in kept"] == "removed"
    assert client.get("v1", "Namespace", "kept")["status"]["phase"] == "Active"
    assert outcomes(rolled(client, of, ApplyFile("", "x", [space])))["Namespace kept"] == "same"


def test_a_run_that_broke_off_left_nothing_that_the_next_one_does_not_find(
    client: BlockingClient, of: ApplySet
) -> None:
    def broken() -> Iterator[Object]:
        yield config("half-way")
        raise Interrupted

    with pytest.raises(Interrupted):
        rolled(client, of, ApplyFile("", "x", broken()))
    assert outcomes(rolled(client, of)) == {"ConfigMap half-way in rolled": "removed"}


def test_fields_of_others_are_told_and_taken_over_only_when_asked(client: BlockingClient, of: ApplySet) -> None:
    client.apply(config("contested", a="theirs"), manager="somebody")
    with pytest.raises(StuckError) as caught:
        rolled(client, of, ApplyFile("", "the map", [config("contested", a="ours"), config("free", a="1")]))
    assert str(caught.value).startswith("the map: others own fields that are wanted here; --force takes them over:\n")
    assert 'conflict with "somebody": .data.a' in str(caught.value)
    assert client.get("v1", "ConfigMap", "contested", NAMESPACE)["data"] == {"a": "theirs"}
    assert "free" in names(client)
    rolled(client, of, ApplyFile("", "the map", [config("contested", a="ours")]), force=True)
    assert client.get("v1", "ConfigMap", "contested", NAMESPACE)["data"] == {"a": "ours"}


def test_a_gate_that_stays_shut_ends_the_run_with_what_is_missing(client: BlockingClient, of: ApplySet) -> None:
    gate = Wait("deployment/none", "condition=Available", NAMESPACE)
    with pytest.raises(StuckError) as caught:
        rolled(client, of, ApplyFile("", "x", [config("before")], (gate,)), ApplyFile("", "y", [config("behind")]))
    assert str(caught.value) == (
        "deployment/none did not get to condition=Available in 0 s:\n"
        "  there is no deployment/none in namespace rolled yet\n"
        "  what to do: `kubectl get pods --namespace rolled` shows whether its operator runs; then run this again"
    )
    assert "before" in names(client)
    assert "behind" not in names(client)


def late(kind: str) -> Object:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": {"name": "late", "namespace": NAMESPACE},
        "spec": {"a": 1},
    }


def test_a_kind_that_is_not_served_ends_the_run_with_what_to_do(client: BlockingClient, of: ApplySet) -> None:
    with pytest.raises(StuckError, match=r"Never late in rolled: the server has no .*; install its CRD"):
        rolled(client, of, ApplyFile("", "x", [late("Never")]))


def test_a_kind_that_comes_meanwhile_is_waited_for(client: BlockingClient, of: ApplySet, api_server: Path) -> None:
    with connect(str(api_server)) as other, ThreadPoolExecutor(1) as pool:

        def report(line: str) -> None:
            if line.startswith("the server has no"):
                pool.submit(crds.install_crds, other, [crd("lates", "Late")])

        run = StackRun(client.dynamic, of, RunOptions("trackbed-test"), report)
        client.run(run.apply_steps([ApplyFile("", "x", [late("Late")])]))
    assert outcomes(run) == {"Late late in rolled": "created"}
    client.run(run.delete_members())


def write_times(body: Object) -> dict[str, str]:
    """Return the second of each manager's last write."""
    return {entry["manager"]: entry["time"] for entry in body["metadata"]["managedFields"]}


def test_what_a_controller_wrote_meanwhile_is_no_change_of_ours(client: BlockingClient, of: ApplySet) -> None:
    """Also where the controller wrote in a later second than we, after which the server reorders the managers."""
    objects = [config("first"), config("second")]
    rolled(client, of, ApplyFile("", "x", objects))

    def write_second(count: int) -> bool:
        meta = {"name": "second", "namespace": NAMESPACE, "annotations": {"theirs": str(count)}}
        body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        times = write_times(client.apply(body, manager="controller").body)
        return times["controller"] > times["trackbed-test"]

    def some() -> Iterator[Object]:
        yield objects[0]
        assert any(map(write_second, range(10_000)))
        yield objects[1]

    assert outcomes(rolled(client, of, ApplyFile("", "x", some()))) == {
        "ConfigMap first in rolled": "same",
        "ConfigMap second in rolled": "same",
    }


def test_nodes_that_lack_the_label_are_gone_on_without_but_not_all_of_them(
    client: BlockingClient, of: ApplySet
) -> None:
    with pytest.raises(StuckError, match="no node has label rolled=yes: compare node and port names"):
        rolled(client, of, WaitForLabel("rolled=yes", 2))
    client.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "one", "labels": {"rolled": "yes"}}})
    messages: list[str] = []
    run = StackRun(client.dynamic, of, RunOptions("trackbed-test", wait_seconds=0), messages.append)
    client.run(run.apply_steps([WaitForLabel("rolled=yes", 2)]))
    assert messages[-1] == "continuing with 1 of 2 nodes: the others get the label once they are up"


def test_removing_the_set_leaves_nothing_of_it(client: BlockingClient, of: ApplySet) -> None:
    stack_run = rolled(client, of, ApplyFile("", "x", [config("member")]))
    client.run(stack_run.delete_members())
    assert client.collect(iter_members(client.dynamic, of)) == []
    with pytest.raises(ApiRefusedError, match="not found"):
        client.get("v1", "ConfigMap", of.name, NAMESPACE)


def test_removing_what_was_never_there_makes_nothing(client: BlockingClient) -> None:
    applyset = ApplySet("never", "no-such-namespace")
    client.run(StackRun(client.dynamic, applyset, RunOptions("trackbed-test"), lambda _: None).delete_members())


def test_the_sets_id_is_the_one_that_kubectl_computes() -> None:
    """Of its own tests and of the Kubernetes reference: Secret my-set in namespace test."""
    known = "applyset-0eFHV8ySqp7XoShsGvyWFQD3s96yqwHmzc4e0HR1dsY-v1"
    assert compute_applyset_id("my-set", "test", "Secret") == known
