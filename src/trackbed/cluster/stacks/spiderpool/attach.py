"""`spiderpool`: Multus attaches VFs or macvlan interfaces to pods, and Spiderpool assigns their addresses.

Scheme shared-subnet is "solution 1" of Spiderpool's AI guides, node-subnet is "solution 2". Pools are disjoint, as two
pods would otherwise get the same address. The first rail has the route to all rails, as control traffic between nodes
would otherwise use the primary network. Follows the AI guides of spidernet-io.github.io/spiderpool (SR-IOV for RoCE and
InfiniBand, macvlan) and its CRDs.
"""

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.stacks import ib_kubernetes, sriov, sriov_nics
from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.groups import get_node_labels
from trackbed.cluster.stacks.rails import build_networks, build_resources, choose_resource_prefix, list_port_hcas
from trackbed.cluster.stacks.spiderpool.networks import (
    PREFIX,
    build_network,
    choose_cni_plugin,
    get_shared_resource_name,
)
from trackbed.cluster.stacks.spiderpool.pools import build_pools, list_ip_versions
from trackbed.cluster.stacks.spiderpool.refusals import find_refusals
from trackbed.cluster.stacks.stack import Chart, Stack, Stage, Wait
from trackbed.cluster.stacks.traits import Share, Traits, Writes, count_multus_writes, count_node_addresses
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.model.ranges import V4, V6
from trackbed.fabric.plan.plan import Plan

COMPONENT = NAMESPACE = "spiderpool"
"""Namespace of Spiderpool's chart and of its SR-IOV operator, which reads policies of its own namespace only."""
MAX_SHARED_PODS = 500
"""Pods of a node that may share its ports, as in the example of the chart's values; more than a kubelet starts."""


def _build_charts(plan: Plan) -> tuple[Chart, ...]:
    """Return Spiderpool's chart with Multus, the CNI plugins, and the SR-IOV operator or the shared device plugin.

    SpiderSubnets are disabled, as pools could otherwise only have addresses of an existing SpiderSubnet.
    """
    values: dict[str, Any] = {"ipam": _build_ip_versions(plan) | {"spiderSubnet": {"enable": False}}}
    if choose_cni_plugin(plan) in {"macvlan", "sriov"}:  # sriov is followed by tuning, which sets the MTU
        values["plugins"] = {"installCNI": True}
    values |= (
        _build_shared_device_plugin_values(plan)
        if choose_cni_plugin(plan) == "macvlan"
        else _build_sriov_operator_values(plan)
    )
    wait = Wait("deployment/spiderpool-controller", "condition=Available", NAMESPACE)
    return (Chart(COMPONENT, NAMESPACE, values, (wait,)),)


def _build_ip_versions(plan: Plan) -> dict[str, bool]:
    """Return the chart's values for IP versions. Without IPv4 the probes of its pods go to ::1, so IPv6 must exist."""
    versions = list_ip_versions(plan) or [V4]
    return {f"enableIPv{version}": version in versions for version in (V4, V6)}


def _build_sriov_operator_values(plan: Plan) -> dict[str, Any]:
    """Return the chart's values for its SR-IOV operator.

    The chart disables draining, with which each node would stop its VFs, or reboot, under running pods, all at once.
    It enables the operator's webhook. Until a pod of that runs, the API server refuses every policy (failurePolicy
    Fail), and its pods run on nodes labelled as control plane only, unless the operator's node is labelled `worker`
    (IsExternalControlPlaneCluster, v1.3.0).
    """
    config = {
        "configDaemonNodeSelector": get_node_labels(plan),
        "disableDrain": False,
        "enableOperatorWebhook": False,
    }
    prefix = choose_resource_prefix(plan, PREFIX)
    return {"sriov": {"install": True, "resourcePrefix": prefix, "operatorConfig": config}}


def _build_shared_device_plugin_values(plan: Plan) -> dict[str, Any]:
    """Return the chart's values for the RDMA shared device plugin: one resource for the ports of all rails, by name.

    Templates read `configList` alone and pass it on as it is. The format is that of the plugin (pkg/types).
    """
    resource_prefix, _, name = get_shared_resource_name(plan).rpartition("/")
    resource = {
        "resourcePrefix": resource_prefix,
        "resourceName": name,
        "rdmaHcaMax": MAX_SHARED_PODS,
        "selectors": {"ifNames": sorted({port.netdev for node in plan.nodes for port in node.ports})},
    }
    return {"rdma": {"rdmaSharedDevicePlugin": {"install": True, "deviceConfig": {"configList": [resource]}}}}


def _build_stages(plan: Plan) -> Iterator[Stage]:
    if choose_cni_plugin(plan) != "macvlan":
        yield _build_policy_stage(plan)
    yield Stage("pools", build_pools(plan))
    yield Stage("networks", (build_network(plan, rail) for rail in plan.common.rails))


def _build_policy_stage(plan: Plan) -> Stage:
    """Return the stage with policies and the limit of nodes at once; the chart's operator is 1.3, without RDMA mode."""
    stage = next(iter(sriov.build_stages(plan, NAMESPACE, NAMESPACE, PREFIX)))
    pool_config = sriov.build_pool_config(plan, NAMESPACE, names_rdma_mode=False)
    return Stage(stage.name, (pool_config, *stage.objects), stage.waits)


def _find_warnings(plan: Plan) -> Iterator[Problem]:
    if choose_cni_plugin(plan) != "macvlan":
        yield from sriov_nics.find_chart_warnings(plan, COMPONENT)


def _build_access(plan: Plan) -> Access:
    if choose_cni_plugin(plan) == "macvlan":
        return Access(
            networks=build_networks(plan), resources=((get_shared_resource_name(plan), 1),), hcas=list_port_hcas(plan)
        )
    return Access(networks=build_networks(plan), resources=build_resources(plan, PREFIX))


def _find_share(plan: Plan) -> Share:
    return Share.SHARED if choose_cni_plugin(plan) == "macvlan" else Share.VF


def _count_pods(plan: Plan) -> int | None:
    """Return the pods of a node. With one subnet for a rail any node may take any pod address of it."""
    addresses = None if plan.common.has_shared_subnets else count_node_addresses(plan)
    vfs = plan.common.vfs if _find_share(plan) is Share.VF else None
    return min((limit for limit in (addresses, vfs) if limit is not None), default=None)


def _count_writes(plan: Plan) -> Writes:
    """Return the writes of Multus and of Spiderpool: a pool's status for each rail and IP version, an endpoint."""
    source = "; read in Spiderpool 1.2: a pool's status for each rail and IP version, endpoints were not counted"
    return count_multus_writes(plan, len(list_ip_versions(plan)), source, is_minimum=True)


_RAN = (
    "2026-11-29, on emulated servers by its own chart and programs: Spiderpool 1.2.2 (solution 1), SR-IOV operator "
    "v1.3.0 of its chart, sriov-cni 2.10.0, Multus 4.3.0; RDMA (mode shared) on 8 of 8 rails between pods; after them "
    "all VFs were back, 8 of 48 under other names"
)
STACK = Stack(
    name="spiderpool",
    title="Multus attaches VFs or macvlan interfaces; Spiderpool deals addresses, of one subnet or of a node's own",
    traits=Traits(
        _find_share,
        "released",
        "sandbox project of the CNCF",
        _count_writes,
        _count_pods,
        ran=_RAN,
        ran_share=Share.VF,
    ),
    needs=(
        "Spiderpool 1.2",
        "with VFs: nodes that may be drained and rebooted, a tenth of them at once",
        "addresses on the ports (for solution 2: Spiderpool finds the subnet by them)",
        "ConfigMap kube-system/kubeadm-config, or kube-controller-manager as a pod: without them no pod gets its rails",
        "with docker as container runtime: hostPID for spiderpool-agent",
        "for its pod webhook (optional): chart value spiderpoolController.podResourceInject.enabled",
        "for an InfiniBand partition: ib-kubernetes with UFM, which the chart does not install",
        ib_kubernetes.describe_ufm_secret("NAMESPACE"),
    ),
    cannot=(
        "moving the ports themselves into pods (scheme point-to-point)",
        "giving a node its own block of a shared subnet: any pod of a rail gets any pod address of that rail",
        "many thousand nodes in scheme node-subnet in little time: its webhook compares each pool with all others",
    ),
    charts=_build_charts,
    stages=_build_stages,
    access=_build_access,
    refusals=find_refusals,
    warnings=_find_warnings,
)
