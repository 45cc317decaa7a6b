"""The stacks on the SR-IOV operator by itself: the community's, and OpenShift's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.stacks.fabric_of import DIRECT, FLAT, NONE, SHARED, fabric, of_kind, one, problems
from trackbed.cluster.stacks import MODULES, load_stack
from trackbed.cluster.stacks.install.steps import ApplyFile, build_steps
from trackbed.cluster.stacks.network_operator.ib_sriov import STACK as IB_SRIOV
from trackbed.cluster.stacks.network_operator.sriov import STACK as SRIOV
from trackbed.cluster.stacks.sriov_operator.openshift import STACK as OPENSHIFT
from trackbed.cluster.stacks.sriov_operator.upstream import STACK as UPSTREAM
from trackbed.cluster.stacks.stack import ForeignObjects, Stack, Wait, iter_objects
from trackbed.fabric.plan.compute import SRIOV_OPERATOR_STACKS
from trackbed.fabric.plan.plan import Plan

VFS: dict[str, Any] = {"vfs": {"count": 8}}
IB: dict[str, Any] = {"linkType": "infiniband"}
WHEREABOUTS: dict[str, Any] = {"kubernetes": {"ipam": "whereabouts"}}
DEFAULT_SYSCTLS = (
    *(f"ipv4.conf.IFNAME.{name}" for name in ("accept_redirects", "accept_source_route", "arp_accept", "arp_notify")),
    *(f"ipv4.conf.IFNAME.{name}" for name in ("disable_policy", "secure_redirects", "send_redirects", "rp_filter")),
    *(f"ipv6.conf.IFNAME.{name}" for name in ("accept_ra", "accept_redirects", "accept_source_route", "arp_accept")),
    *(f"ipv6.conf.IFNAME.{name}" for name in ("arp_notify", "disable_ipv6", "disable_policy")),
    *(f"ipv6.neigh.IFNAME.{name}" for name in ("base_reachable_time_ms", "retrans_time_ms")),
)
"""bindata/network/multus/004-sysctl-configmap.yaml of openshift/cluster-network-operator, commit a3243a3e."""
BOTH = pytest.mark.parametrize(
    ("stack", "namespace"),
    [(UPSTREAM, "sriov-network-operator"), (OPENSHIFT, "openshift-sriov-network-operator")],
    ids=["upstream", "openshift"],
)


@BOTH
def test_all_objects_of_the_operator_stand_in_its_namespace(stack: Stack, namespace: str) -> None:
    manifests = [
        manifest
        for manifest in iter_objects(stack, fabric(addressing=SHARED, **VFS))
        if "sriovnetwork.openshift.io" in manifest["apiVersion"]
    ]
    assert {manifest["metadata"]["namespace"] for manifest in manifests} == {namespace}
    assert {manifest["kind"] for manifest in manifests} == {
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


@pytest.mark.parametrize(("version", "mode"), [("v1.4.0", None), ("v1.5.0", "exclusive"), ("v1.6.0", "exclusive")])
def test_an_operator_without_rdma_mode_is_not_asked_for_one(version: str, mode: str | None) -> None:
    plan = fabric(addressing=SHARED, **VFS, kubernetes={"versions": {"sriov-network-operator": version}})
    assert one(UPSTREAM, plan, "SriovNetworkPoolConfig")["spec"].get("rdmaMode") == mode


@BOTH
def test_a_pod_asks_for_the_resource_that_the_policy_makes(stack: Stack, namespace: str) -> None:  # noqa: ARG001 - the table's
    plan = fabric(addressing=SHARED, **VFS)
    made = [
        f"openshift.io/{manifest['spec']['resourceName']}"
        for manifest in of_kind(stack, plan, "SriovNetworkNodePolicy")
    ]
    assert [name for name, _ in stack.access(plan).resources] == made


@BOTH
def test_a_network_on_ethernet_sets_no_link_state_that_a_driver_may_refuse(stack: Stack, namespace: str) -> None:  # noqa: ARG001 - the table's
    network = one(stack, fabric(addressing=SHARED, **VFS), "SriovNetwork")
    assert "linkState" not in network["spec"]


@BOTH
def test_infiniband_gets_networks_of_its_own_kind(stack: Stack, namespace: str) -> None:
    network = one(stack, fabric(addressing=NONE, **IB, **VFS), "SriovIBNetwork")
    assert (network["metadata"]["namespace"], network["spec"]["linkState"]) == (namespace, "enable")


@BOTH
def test_vfs_are_waited_for_again_after_the_restart_of_the_plugin_that_offers_them(
    stack: Stack, namespace: str
) -> None:
    stages = stack.stages(fabric(addressing=SHARED, **VFS))
    waits = [wait for stage in stages for wait in stage.waits if isinstance(wait, Wait)]
    named = [(wait.resource.partition(" ")[0], wait.namespace) for wait in waits]
    once = [("sriovnetworknodestates", namespace), ("nodes", None), ("nodes", None)]
    again = [once[0], ("daemonset/sriov-device-plugin", namespace), *once[1:]]
    first = named.index(once[0])
    assert named[first : first + len(once + again)] == once + again


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
    assert [manifest["spec"]["name"] for manifest in of_kind(OPENSHIFT, plan, "Subscription")] == packages
    assert bool(of_kind(OPENSHIFT, plan, "NicClusterPolicy")) == ("nvidia-network-operator" in packages)


def test_each_subscription_has_a_namespace_and_a_group_that_watches_it() -> None:
    plan = fabric(addressing=SHARED, **VFS)
    spaces = [manifest["metadata"]["name"] for manifest in of_kind(OPENSHIFT, plan, "Namespace")]
    assert [manifest["metadata"]["namespace"] for manifest in of_kind(OPENSHIFT, plan, "Subscription")] == spaces
    assert [manifest["spec"]["targetNamespaces"] for manifest in of_kind(OPENSHIFT, plan, "OperatorGroup")] == [
        [space] for space in spaces
    ]


def test_every_sysctl_that_a_network_sets_is_in_the_platforms_list() -> None:
    plan = fabric(addressing=SHARED, **VFS)
    plugins = json.loads(f"[{one(OPENSHIFT, plan, 'SriovNetwork')['spec']['metaPlugins']}]")
    wanted = next(plugin for plugin in plugins if plugin["type"] == "tuning")["sysctl"]
    listed = one(OPENSHIFT, plan, "ConfigMap")["data"]["allowlist.conf"].splitlines()
    assert {f"^{name}$" for name in wanted} < set(listed)
    assert len(listed) == len(set(listed)) == 19


def test_every_sysctl_that_the_platform_allows_by_default_is_kept() -> None:
    listed = one(OPENSHIFT, fabric(addressing=SHARED, **VFS), "ConfigMap")["data"]["allowlist.conf"].splitlines()
    assert {f"^net.{name}$" for name in DEFAULT_SYSCTLS} <= set(listed)


def test_only_the_list_of_sysctls_is_taken_over_from_another_manager() -> None:
    steps = build_steps(OPENSHIFT, fabric(addressing=SHARED, **VFS))
    assert [step.title for step in steps if isinstance(step, ApplyFile) and step.force] == ["sysctls"]


def test_a_subscription_yields_to_groups_and_subscriptions_of_other_names() -> None:
    steps = build_steps(OPENSHIFT, fabric(addressing=SHARED, **VFS))
    foreign = [step.yields_to for step in steps if isinstance(step, ApplyFile) and step.yields_to]
    kinds = ("OperatorGroup.operators.coreos.com", "Subscription.operators.coreos.com")
    assert foreign == [
        ForeignObjects(kinds, "openshift-nfd", "nfd"),
        ForeignObjects(kinds, "openshift-sriov-network-operator", "sriov-network-operator"),
        ForeignObjects(kinds, "nvidia-network-operator", "nvidia-network-operator"),
    ]


def test_operators_are_all_subscribed_before_any_is_waited_for() -> None:
    stages = [stage for stage in OPENSHIFT.stages(fabric(addressing=SHARED, **VFS)) if stage.yields_to]
    assert [len(stage.waits) for stage in stages] == [0, 0, 4]


def test_openshift_is_required_in_the_first_release_whose_pools_have_the_rdma_mode() -> None:
    assert (OPENSHIFT.traits.kubernetes, OPENSHIFT.traits.operators) == ("1.31", ("OpenShift 4.18 with OLM",))
    assert OPENSHIFT.needs[0].startswith("OpenShift 4.18 or later")


def test_pods_of_the_namespace_may_lock_memory_and_nothing_privileged() -> None:
    plan = fabric(addressing=SHARED, kubernetes={"namespace": "training"}, **VFS)
    result = one(OPENSHIFT, plan, "SecurityContextConstraints")
    assert (result["allowedCapabilities"], result["allowPrivilegedContainer"]) == (["IPC_LOCK"], False)
    assert result["groups"] == ["system:serviceaccounts:training"]


def test_kinds_that_only_openshift_knows_stand_in_stages_of_their_own() -> None:
    plan = fabric(addressing=SHARED, **VFS)
    kinds = {stage.name: {manifest["kind"] for manifest in stage.objects} for stage in OPENSHIFT.stages(plan)}
    for package in ("nfd", "sriov-network-operator", "nvidia-network-operator"):
        assert kinds[f"subscription {package}"] == {"Namespace", "OperatorGroup", "Subscription"}
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


@pytest.mark.parametrize("stack", [UPSTREAM, OPENSHIFT, SRIOV, IB_SRIOV], ids=lambda stack: stack.name)
def test_the_rdma_mode_is_there_before_the_operators_daemon_runs(stack: Stack) -> None:
    """Without a mode the daemon takes ib_core.netns_mode off the kernel line, and reboots the node."""
    plan = fabric(addressing=NONE if stack is IB_SRIOV else SHARED, **VFS, **(IB if stack is IB_SRIOV else {}))
    kinds = [manifest["kind"] for manifest in iter_objects(stack, plan)]
    daemon = "NicClusterPolicy" if stack in {SRIOV, IB_SRIOV} else "SriovOperatorConfig"
    assert kinds.index("SriovNetworkPoolConfig") < kinds.index(daemon)
    assert kinds.count("SriovNetworkPoolConfig") == 1


@pytest.mark.parametrize("stack", [SRIOV, IB_SRIOV], ids=lambda stack: stack.name)
def test_the_rdma_mode_is_there_before_nodes_have_the_label_by_which_a_charts_daemons_choose_them(stack: Stack) -> None:
    """An operator that saw the label 0.4 s before the pool rebooted the node, on a real API server."""
    plan = fabric(addressing=NONE if stack is IB_SRIOV else SHARED, **VFS, **(IB if stack is IB_SRIOV else {}))
    steps = [type(step).__name__ if not isinstance(step, ApplyFile) else step.file for step in build_steps(stack, plan)]
    order = ["10-rdma-mode.yaml", "20-nfd.yaml", "WaitForLabel", "30-operator.yaml"]
    assert [step for step in steps if step in {"InstallChart", *order}] == ["InstallChart", "InstallChart", *order]


@pytest.mark.parametrize("stack", [UPSTREAM, SRIOV, IB_SRIOV], ids=lambda stack: stack.name)
def test_hosts_that_were_not_planned_for_the_operator_are_warned_of(stack: Stack) -> None:
    plan = fabric(addressing=SHARED, **VFS)
    (problem,) = stack.warnings(plan)
    assert (problem.code, problem.severity) == ("sriov-operator-reboots", "warning")
    assert f"write kubernetes.stack {stack.name}, " in problem.message
    assert list(stack.warnings(fabric(addressing=SHARED, **VFS, kubernetes={"stack": stack.name}))) == []


def test_the_plan_knows_every_stack_whose_operator_is_told_the_rdma_mode() -> None:
    """On OpenShift the operator sets kernel arguments itself, by rpm-ostree."""
    names = {
        name
        for name, stack in zip(MODULES, map(load_stack, MODULES), strict=True)
        for link in ({}, IB)
        if _names_rdma_mode(stack, fabric(addressing=NONE if link else SHARED, **VFS, **link))
    }
    assert names - {"openshift"} == SRIOV_OPERATOR_STACKS


def _names_rdma_mode(stack: Stack, plan: Plan) -> bool:
    if any(stack.refusals(plan)):
        return False
    return any("rdmaMode" in manifest.get("spec", {}) for manifest in iter_objects(stack, plan))
