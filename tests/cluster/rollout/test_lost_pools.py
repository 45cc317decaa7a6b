"""A NicClusterPolicy takes NV-IPAM's CRDs along, and so the pools of others: told before, and held back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from trackbed_lab.kubernetes import crds
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from tests.cluster.objects import crd
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout import lost_pools
from trackbed.cluster.rollout.applyset import ApplySet
from trackbed.cluster.rollout.options import RunOptions, StuckError
from trackbed.cluster.rollout.preview import iter_preview
from trackbed.cluster.rollout.stack_run import StackRun
from trackbed.cluster.stacks.install.steps import ApplyFile

NAMESPACE = "pooled"
GROUP = "pools.example.com"  # the pools of other tests are not counted
POLICY: Object = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "NicClusterPolicy",
    "metadata": {"name": "nic-cluster-policy"},
}
SET = ApplySet("pooled-set", NAMESPACE)


def pool(name: str) -> Object:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": f"{GROUP}/v1", "kind": "IPPool", "metadata": metadata}


@pytest.fixture
def client(api_server: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockingClient]:
    monkeypatch.setattr(lost_pools, "API", f"{GROUP}/v1")
    with connect(str(api_server)) as live:
        crds.install_crds(live, [crd("nicclusterpolicies", "NicClusterPolicy", GROUP), crd("ippools", "IPPool", GROUP)])
        live.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        yield live


def run_steps(client: BlockingClient, *objects: Object, force: bool = False) -> list[tuple[str, str]]:
    run = StackRun(client.dynamic, SET, RunOptions("test", force=force, wait_seconds=0), lambda _: None)
    client.run(run.apply_steps([ApplyFile("", "x", list(objects))]))
    return [(change.what, change.outcome) for change in run.changes]


def test_pools_of_others_are_shown_and_hold_the_removal_back(client: BlockingClient) -> None:
    run_steps(client, POLICY, pool("own"))
    client.apply(pool("theirs"))
    step = ApplyFile("", "x", [pool("own")])
    changes = client.collect(iter_preview(client.dynamic, SET, RunOptions("test"), [step]))
    (lines,) = [change.fields for change in changes if change.outcome == "removed"]
    assert lines[0].endswith("pools that do not belong to this stack: IPPool theirs in pooled")
    with pytest.raises(StuckError, match=r"IPPool theirs in pooled\. Nothing was removed"):
        run_steps(client, pool("own"))
    assert client.get(POLICY["apiVersion"], "NicClusterPolicy", "nic-cluster-policy")
    assert ("NicClusterPolicy nic-cluster-policy", "removed") in run_steps(client, pool("own"), force=True)


def test_a_policy_whose_cluster_has_no_other_pools_is_removed(client: BlockingClient) -> None:
    for name in ("theirs", "own"):
        client.delete(pool(name))
    run_steps(client, POLICY, pool("own"))
    assert ("NicClusterPolicy nic-cluster-policy", "removed") in run_steps(client, pool("own"))


def test_a_policy_that_loses_nv_ipam_is_held_back_too(client: BlockingClient) -> None:
    with_pools = POLICY | {"spec": {"nvIpam": {"version": "v1"}}}
    without = POLICY | {"spec": {"other": True}}
    run_steps(client, with_pools, pool("own"))
    client.apply(pool("theirs"))
    step = ApplyFile("", "x", [without])
    changes = client.collect(iter_preview(client.dynamic, SET, RunOptions("test"), [step]))
    assert changes[0].fields[0].startswith("the Network Operator deletes NV-IPAM's CRDs with nvIpam of its Nic")
    with pytest.raises(StuckError, match=r"IPPool theirs in pooled\. Nothing was removed"):
        run_steps(client, without, pool("own"))
    assert client.get(POLICY["apiVersion"], "NicClusterPolicy", "nic-cluster-policy")["spec"]["nvIpam"]
    assert ("NicClusterPolicy nic-cluster-policy", "changed") in run_steps(client, without, pool("own"), force=True)
    run_steps(client, pool("own"), force=True)


def test_nv_ipam_that_another_manager_keeps_is_not_lost(client: BlockingClient) -> None:
    client.apply(POLICY | {"spec": {"nvIpam": {"version": "v1"}}}, manager="others")
    client.apply(pool("theirs"))
    without = POLICY | {"spec": {"other": True}}
    assert ("NicClusterPolicy nic-cluster-policy", "changed") in run_steps(client, without)
    run_steps(client, force=True)
