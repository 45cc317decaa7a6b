"""A set is removed against the order of its stages, and each kind is gone, with its VFs, before the next."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab.kubernetes import crds
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from tests.cluster.objects import crd
from tests.cluster.stacks.fabric_of import ROUTED, SHARED, fabric
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout import node_states
from trackbed.cluster.rollout.applyset import PART_OF, ApplySet
from trackbed.cluster.rollout.options import RunOptions, StuckError
from trackbed.cluster.rollout.recorded_run import list_kinds
from trackbed.cluster.rollout.removal import order_for_removal
from trackbed.cluster.rollout.stack_run import StackRun
from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.install.steps import ApplyFile, build_steps

GROUP = "removal.example.com"
KINDS = {
    "nodefeaturerules": "NodeFeatureRule",
    "sriovnetworknodepolicies": "SriovNetworkNodePolicy",
    "sriovnetworks": "SriovNetwork",
    "sriovnetworknodestates": "SriovNetworkNodeState",
}
STAGES = ["NodeFeatureRule", "SriovNetworkNodePolicy", "SriovNetwork"]
ADDRESS = "0000:11:00.0"


@pytest.mark.parametrize(
    ("stack", "spec", "earlier", "later"),
    [
        pytest.param("sriov-operator", SHARED, "SriovNetwork", "SriovNetworkNodePolicy", id="networks, policies"),
        pytest.param("sriov-operator", SHARED, "SriovNetworkNodePolicy", "SriovNetworkPoolConfig", id="VFs, mode"),
        pytest.param("sriov-operator", SHARED, "SriovNetworkPoolConfig", "SriovOperatorConfig", id="mode, operator"),
        pytest.param("sriov-operator", SHARED, "SriovOperatorConfig", "NodeFeatureRule", id="operator, labels"),
        pytest.param("network-operator-sriov", SHARED, "SriovNetworkPoolConfig", "NicClusterPolicy", id="mode, policy"),
        pytest.param("network-operator-sriov", SHARED, "NicClusterPolicy", "NodeFeatureRule", id="policy, labels"),
        pytest.param("spectrum-x", ROUTED, "SpectrumXRailPoolConfig", "NicClusterPolicy", id="rails, policy"),
        pytest.param("native", SHARED, "DaemonSet", "ServiceAccount", id="agents, account"),
    ],
)
def test_a_kind_goes_before_the_kinds_that_it_needs(stack: str, spec: dict[str, Any], earlier: str, later: str) -> None:
    kinds = list_kinds(build_steps(load_stack(stack), fabric(2, addressing=spec)))
    order = [group.kind for group in order_for_removal((), kinds)]
    assert order.index(earlier) < order.index(later)


def test_kinds_that_the_stack_no_longer_has_go_first() -> None:
    objects = [build_object(kind, "a", "x") for kind in ("NodeFeatureRule", "Obsolete")]
    groups = order_for_removal(objects, [f"{kind}.{GROUP}" for kind in STAGES])
    assert [group.kind for group in groups if group.objects] == ["Obsolete", "NodeFeatureRule"]


@pytest.fixture
def client(api_server: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockingClient]:
    monkeypatch.setattr(node_states, "API", f"{GROUP}/v1")
    with connect(str(api_server)) as live:
        crds.install_crds(live, [crd(plural, kind, GROUP) for plural, kind in KINDS.items()])
        yield live


@pytest.fixture
def applyset(client: BlockingClient) -> Iterator[ApplySet]:
    """A set with an object of each kind, in a namespace of the test alone."""
    namespace = f"removal-{secrets.token_hex(4)}"
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    applyset = ApplySet("removed", namespace)
    steps = [ApplyFile("", kind, [build_object(kind, "a", namespace)]) for kind in STAGES]
    client.run(build_run(client, applyset).apply_steps(steps))
    yield applyset
    for state in client.list(f"{GROUP}/v1", "SriovNetworkNodeState", namespace):
        client.delete(state)


def build_object(kind: str, name: str, namespace: str, **fields: Any) -> Object:
    metadata = {"name": name, "namespace": namespace, **fields.pop("metadata", {})}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, **fields}


def build_run(
    client: BlockingClient, applyset: ApplySet, messages: list[str] | None = None, **options: Any
) -> StackRun:
    kinds = [f"{kind}.{GROUP}" for kind in STAGES]
    report = (messages if messages is not None else list[str]()).append
    return StackRun(
        client.dynamic, applyset, RunOptions("test", **{"wait_seconds": 0, **options}), report, stage_kinds=kinds
    )


def set_finalizers(client: BlockingClient, applyset: ApplySet, kind: str, *finalizers: str) -> None:
    body = build_object(kind, "a", applyset.namespace, metadata={"finalizers": list(finalizers)})
    client.apply(body, manager="operator", force=True)


def put_node_state(client: BlockingClient, applyset: ApplySet, status: Object, *ports: Object) -> None:
    state = build_object("SriovNetworkNodeState", "gpu-0", applyset.namespace)
    client.apply({**state, "spec": {"interfaces": list(ports)}}, manager="operator", force=True)
    client.apply({**state, "status": status}, manager="daemon", subresource="/status", force=True)


def list_members(client: BlockingClient, applyset: ApplySet) -> list[str]:
    selector = f"{PART_OF}={applyset.id}"
    return [kind for kind in STAGES if list(client.list(f"{GROUP}/v1", kind, applyset.namespace, selector=selector))]


def test_objects_are_deleted_against_the_order_of_the_stages(client: BlockingClient, applyset: ApplySet) -> None:
    run = build_run(client, applyset)
    client.run(run.delete_members())
    assert [change.what.split()[0] for change in run.changes] == STAGES[::-1]
    assert list_members(client, applyset) == []


def test_a_finalizer_that_stays_ends_the_removal_with_what_is_left_and_it_can_be_repeated(
    client: BlockingClient, applyset: ApplySet
) -> None:
    set_finalizers(client, applyset, "SriovNetwork", "example.com/network")
    with pytest.raises(StuckError) as caught:
        client.run(build_run(client, applyset).delete_members())
    assert str(caught.value) == (
        "the removal waits, after 0 s, for:\n"
        f"  SriovNetwork a in {applyset.namespace} was deleted and waits for example.com/network\n"
        "  what to do: see that the operator that removes these finalizers runs; then run this again, or use --force "
        "to delete the others nevertheless"
    )
    assert list_members(client, applyset) == STAGES
    set_finalizers(client, applyset, "SriovNetwork")
    client.run(build_run(client, applyset).delete_members())
    assert list_members(client, applyset) == []


def test_a_removal_goes_on_once_the_operator_has_removed_its_finalizer(
    client: BlockingClient, applyset: ApplySet, api_server: Path
) -> None:
    set_finalizers(client, applyset, "SriovNetwork", "example.com/network")
    with connect(str(api_server)) as operator, ThreadPoolExecutor(1) as pool:
        messages: list[str] = []

        def report(line: str) -> None:
            messages.append(line)
            pool.submit(set_finalizers, operator, applyset, "SriovNetwork")

        run = build_run(client, applyset, wait_seconds=60)
        run.report = report
        client.run(run.delete_members())
    line = f"waiting: SriovNetwork a in {applyset.namespace} was deleted and waits for example.com/network"
    assert (messages, list_members(client, applyset)) == ([line], [])


def test_with_force_a_removal_goes_on_past_a_finalizer(client: BlockingClient, applyset: ApplySet) -> None:
    set_finalizers(client, applyset, "SriovNetwork", "example.com/network")
    messages: list[str] = []
    client.run(build_run(client, applyset, messages, force=True).delete_members())
    assert messages[-1].startswith("continuing although after 0 s: SriovNetwork a in ")
    assert list_members(client, applyset) == ["SriovNetwork"]
    set_finalizers(client, applyset, "SriovNetwork")


PORT: Object = {"pciAddress": ADDRESS, "vfGroups": [{"policyName": "a"}]}


@pytest.mark.parametrize(
    ("status", "ports", "line"),
    [
        pytest.param(
            {"syncStatus": "InProgress"}, (), "syncStatus is InProgress, not Succeeded", id="the daemon works"
        ),
        pytest.param(
            {"syncStatus": "Succeeded"},
            (PORT,),
            "the operator has not taken the deleted policies out of its spec yet",
            id="the operator has not reacted",
        ),
    ],
)
def test_the_labels_stay_until_the_vfs_of_deleted_policies_are_removed(
    client: BlockingClient, applyset: ApplySet, status: Object, ports: tuple[Object, ...], line: str
) -> None:
    put_node_state(client, applyset, status, *ports)
    with pytest.raises(StuckError, match=f"SriovNetworkNodeState gpu-0 in {applyset.namespace}: {line}"):
        client.run(build_run(client, applyset).delete_members())
    assert list_members(client, applyset) == ["NodeFeatureRule"]
    put_node_state(client, applyset, {"syncStatus": "InProgress"})
    with pytest.raises(StuckError, match="syncStatus is InProgress"):
        client.run(build_run(client, applyset).delete_members())
    put_node_state(client, applyset, {"syncStatus": "Succeeded"})
    client.run(build_run(client, applyset).delete_members())
    assert list_members(client, applyset) == []


@pytest.mark.parametrize(
    ("spec", "vfs", "lines"),
    [
        pytest.param([], 8, [f"{ADDRESS} still has 8 VFs"], id="VFs remain"),
        pytest.param([], 0, [], id="VFs are gone"),
        pytest.param([{"pciAddress": ADDRESS, "vfGroups": [{"policyName": "b"}]}], 8, [], id="another policy has it"),
    ],
)
def test_a_synced_node_is_left_once_the_ports_of_deleted_policies_have_no_vfs(
    client: BlockingClient, applyset: ApplySet, spec: list[Object], vfs: int, lines: list[str]
) -> None:
    put_node_state(client, applyset, {"syncStatus": "Succeeded"}, PORT)
    removed = client.run(node_states.read_policy_ports(client.dynamic, {"a"}))
    interfaces = [{"pciAddress": ADDRESS, "numVfs": vfs}, {"pciAddress": "0000:99:00.0", "numVfs": 4}]
    put_node_state(client, applyset, {"syncStatus": "Succeeded", "interfaces": interfaces}, *spec)
    listed = client.run(node_states.list_unsynced_nodes(client.dynamic, removed))
    assert [line.partition(": ")[2] for line in listed] == lines
