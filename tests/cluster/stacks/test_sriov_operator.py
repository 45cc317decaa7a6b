"""The stacks on the SR-IOV operator by itself: the community's, and OpenShift's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.stacks.fabric_of import DIRECT, FLAT, NONE, SHARED, fabric, of_kind, one, problems
from trackbed.cluster.stacks.sriov_operator.openshift import STACK as OPENSHIFT
from trackbed.cluster.stacks.sriov_operator.upstream import STACK as UPSTREAM
from trackbed.cluster.stacks.stack import Stack, objects

VFS: dict[str, Any] = {"vfs": {"count": 8}}
IB: dict[str, Any] = {"linkType": "infiniband"}
WHEREABOUTS: dict[str, Any] = {"kubernetes": {"ipam": "whereabouts"}}
BOTH = pytest.mark.parametrize(
    ("stack", "namespace"),
    [(UPSTREAM, "sriov-network-operator"), (OPENSHIFT, "openshift-sriov-network-operator")],
    ids=["upstream", "openshift"],
)


@BOTH
def test_all_objects_of_the_operator_stand_in_its_namespace(stack: Stack, namespace: str) -> None:
    own = [
        one
        for one in objects(stack, fabric(addressing=SHARED, **VFS))
        if "sriovnetwork.openshift.io" in one["apiVersion"]
    ]
    assert {one["metadata"]["namespace"] for one in own} == {namespace}
    assert {one["kind"] for one in own} == {
        "SriovNetwork",
        "SriovNetworkNodePolicy",
        "SriovNetworkPoolConfig",
        "SriovOperatorConfig",
    }


@BOTH
def test_the_daemon_runs_on_the_fabrics_nodes(stack: Stack, namespace: str) -> None:
    config = one(stack, fabric(addressing=SHARED, **VFS), "SriovOperatorConfig")
    assert (config["metadata"]["name"], config["metadata"]["namespace"]) == ("default", namespace)
    assert config["spec"]["configDaemonNodeSelector"] == {"trackbed.dev/fabric": "train"}


@BOTH
def test_a_pod_asks_for_the_resource_that_the_policy_makes(stack: Stack, namespace: str) -> None:  # noqa: ARG001 - the table's
    plan = fabric(addressing=SHARED, **VFS)
    made = [f"openshift.io/{one['spec']['resourceName']}" for one in of_kind(stack, plan, "SriovNetworkNodePolicy")]
    assert [name for name, _ in stack.access(plan).resources] == made


@BOTH
def test_infiniband_gets_networks_of_its_own_kind(stack: Stack, namespace: str) -> None:
    network = one(stack, fabric(addressing=NONE, **IB, **VFS), "SriovIBNetwork")
    assert (network["metadata"]["namespace"], network["spec"]["linkState"]) == (namespace, "enable")


def test_upstream_takes_a_written_prefix_and_openshift_does_not() -> None:
    plan = fabric(addressing=SHARED, names={"resource": "example.com/r{rail}"}, **VFS)
    assert UPSTREAM.charts(plan)[0].values["operator"]["resourcePrefix"] == "example.com"
    assert UPSTREAM.access(plan).resources[0] == ("example.com/r0", 1)
    assert problems(OPENSHIFT, plan) == [
        (
            "error: OpenShift's SR-IOV operator calls every resource openshift.io/..., and names.resource begins with "
            "example.com/: write openshift.io/ there, or leave the prefix out [stack-prefix]"
        )
    ]


def test_upstream_has_no_webhooks_for_want_of_certificates() -> None:
    spec = one(UPSTREAM, fabric(addressing=SHARED, **VFS), "SriovOperatorConfig")["spec"]
    assert (spec["enableInjector"], spec["enableOperatorWebhook"]) == (False, False)


def test_upstream_pools_stand_where_nv_ipam_reads_them() -> None:
    assert one(UPSTREAM, fabric(addressing=SHARED, **VFS), "IPPool")["metadata"]["namespace"] == "kube-system"


def test_upstream_installs_whereabouts_and_openshift_has_its_own() -> None:
    plan = fabric(addressing=SHARED, **VFS, **WHEREABOUTS)
    assert [chart.component for chart in UPSTREAM.charts(plan)] == ["sriov-network-operator", "whereabouts"]
    assert OPENSHIFT.charts(plan) == ()


@pytest.mark.parametrize(
    ("kubernetes", "packages"),
    [
        ({}, ["nfd", "sriov-network-operator", "nvidia-network-operator"]),
        ({"ipam": "whereabouts"}, ["nfd", "sriov-network-operator"]),
        ({"ipam": "whereabouts", "driver": "container"}, ["nfd", "sriov-network-operator", "nvidia-network-operator"]),
    ],
    ids=["nv-ipam", "whereabouts", "driver container"],
)
def test_nvidias_operator_is_subscribed_only_where_it_has_work(kubernetes: dict[str, Any], packages: list[str]) -> None:
    plan = fabric(addressing=SHARED, kubernetes=kubernetes, **VFS)
    assert [one["spec"]["name"] for one in of_kind(OPENSHIFT, plan, "Subscription")] == packages
    assert bool(of_kind(OPENSHIFT, plan, "NicClusterPolicy")) == ("nvidia-network-operator" in packages)


def test_each_subscription_has_a_namespace_and_a_group_that_watches_it() -> None:
    plan = fabric(addressing=SHARED, **VFS)
    spaces = [one["metadata"]["name"] for one in of_kind(OPENSHIFT, plan, "Namespace")]
    assert [one["metadata"]["namespace"] for one in of_kind(OPENSHIFT, plan, "Subscription")] == spaces
    assert [one["spec"]["targetNamespaces"] for one in of_kind(OPENSHIFT, plan, "OperatorGroup")] == [
        [space] for space in spaces
    ]


def test_every_sysctl_that_a_network_sets_is_in_the_platforms_list() -> None:
    plan = fabric(addressing=SHARED, **VFS)
    plugins = json.loads(f"[{one(OPENSHIFT, plan, 'SriovNetwork')['spec']['metaPlugins']}]")
    wanted = next(plugin for plugin in plugins if plugin["type"] == "tuning")["sysctl"]
    listed = one(OPENSHIFT, plan, "ConfigMap")["data"]["allowlist.conf"].splitlines()
    assert {f"^{name}$" for name in wanted} < set(listed)
    assert len(listed) == len(set(listed)) == 19


def test_pods_of_the_namespace_may_lock_memory_and_nothing_privileged() -> None:
    plan = fabric(addressing=SHARED, kubernetes={"namespace": "training"}, **VFS)
    found = one(OPENSHIFT, plan, "SecurityContextConstraints")
    assert (found["allowedCapabilities"], found["allowPrivilegedContainer"]) == (["IPC_LOCK"], False)
    assert found["groups"] == ["system:serviceaccounts:training"]


def test_kinds_that_only_openshift_knows_stand_in_stages_of_their_own() -> None:
    plan = fabric(addressing=SHARED, **VFS)
    kinds = {stage.name: {one["kind"] for one in stage.objects} for stage in OPENSHIFT.stages(plan)}
    assert kinds["subscriptions"] == {"Namespace", "OperatorGroup", "Subscription"}
    assert kinds["memory locking"] == {"SecurityContextConstraints"}


@BOTH
@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"addressing": SHARED}, "stack-needs-vfs"),
        ({"addressing": DIRECT, **VFS}, "stack-scheme"),
        ({"addressing": NONE, **VFS}, "stack-scheme"),
        ({"addressing": FLAT, **IB, "vfs": {"count": 17}}, "stack-too-many-vfs"),
        ({"addressing": NONE, **IB, **VFS, "kubernetes": {"pkey": "0x1"}}, "stack-pkey"),
    ],
    ids=["no VFs", "a /31", "no addresses", "17 InfiniBand VFs", "a partition"],
)
def test_what_vfs_cannot_carry_is_refused(stack: Stack, namespace: str, spec: dict[str, Any], code: str) -> None:  # noqa: ARG001 - the table's
    assert [problem.code for problem in stack.refusals(fabric(**spec))] == [code]
