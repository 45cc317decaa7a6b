"""Objects of the SR-IOV network operator (sriovnetwork.openshift.io/v1), for all stacks that use it.

SriovNetworkNodePolicy    the ports that get VFs, the number of VFs, and the resource that counts them
SriovNetworkPoolConfig    the RDMA namespace mode of the nodes, and how many are drained and rebooted at once
SriovNetwork              the network of a rail on Ethernet; the operator creates the NetworkAttachmentDefinition
SriovIBNetwork            the network of a rail on InfiniBand

Policies select ports by their planned names. In RDMA namespace mode exclusive the rdma CNI plugin moves the RDMA device
into the pod. Between routed rails the sbr CNI plugin adds source routing, as replies would otherwise leave by the first
rail.

Follows the operator's CRDs, its webhook (pkg/webhook/validate.go) and the Network Operator's deployment guide.
"""

import json
from collections.abc import Iterator
from typing import Any

from trackbed.cluster.stacks import pod_ipam, sriov_nics
from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.groups import HardwareGroup, get_node_labels, group_nodes
from trackbed.cluster.stacks.objects import Manifest, build_manifest, drop_none
from trackbed.cluster.stacks.rails import build_networks, build_resources, get_resource_name, get_short_resource_name
from trackbed.cluster.stacks.stack import ROLLED_OUT, Stage, Wait
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan, RailPlan

API = "sriovnetwork.openshift.io/v1"
MAX_VFS = 128
"""Largest number of VFs of an Ethernet port: the limit of the operator's webhook for NVIDIA NICs."""
MAX_IB_VFS = 16
"""Largest number of VFs of an InfiniBand port: the limit of Network Operator 25.1."""
POD_SYSCTLS = {"rp_filter": "2", "arp_ignore": "1", "arp_announce": "2"}
"""net.ipv4.conf of each rail in a pod: loose reverse path filter, no ARP replies for another rail's address."""
READY_SECONDS = 7200
"""Timeout for ten rounds of draining and rebooting nodes with slow firmware."""


def build_stages(plan: Plan, operator_namespace: str, pool_namespace: str, resource_prefix: str) -> Iterator[Stage]:
    """Yield the stages for VFs, address pools and networks, which follow `build_pool_config`.

    `pool_namespace` is that of NV-IPAM's pools, `resource_prefix` the operator's default prefix of resource names.
    """
    yield Stage(
        "virtual functions",
        _build_vf_objects(plan, operator_namespace),
        tuple(_build_vf_waits(plan, operator_namespace, resource_prefix)),
    )
    yield from pod_ipam.build_pool_stages(plan, pool_namespace)
    yield Stage("networks", (_build_network(plan, rail, operator_namespace) for rail in plan.common.rails))


def build_access(plan: Plan, resource_prefix: str) -> Access:
    """Return the access of pods to VFs: networks and resources, without RDMA devices, as their names are unknown."""
    return Access(networks=build_networks(plan), resources=build_resources(plan, resource_prefix))


def find_warnings(plan: Plan, stack: str, component: str) -> Iterator[Problem]:
    """Yield a problem if the operator reboots hosts because their kernel line lacks the mode, and for each skipped NIC.

    `component` is the chart that installs the operator. Its daemon sets kernel arguments by grubby or rpm-ostree. Where
    a host has neither, as on Debian and Ubuntu, it drains and reboots the node again and again
    (syncDesiredKernelArgs of pkg/plugins/generic, v1.6.0).
    """
    if not plan.common.rdma_mode_on_cmdline:
        yield Problem(
            "sriov-operator-reboots",
            "the SR-IOV operator reboots hosts without grubby until their kernel line names the RDMA mode: write "
            f"kubernetes.stack {stack}, and run `trackbed apply` on the hosts before this",
            ("spec", "kubernetes", "stack"),
            severity="warning",
        )
    yield from sriov_nics.find_chart_warnings(plan, component)


def find_refusals(plan: Plan, pool_namespace: str) -> Iterator[Problem]:
    """Yield a problem if VFs cannot implement the plan; `pool_namespace` is the namespace of NV-IPAM's pools."""
    yield from _check_vf_count(plan)
    message = (
        "a /31 has no address besides the port's and its leaf's, so none is left for a VF: write scheme "
        "node-subnet or shared-subnet, or take network-operator-hostdevice, which moves the port itself"
    )
    problem = find_scheme_problem(plan, message)
    yield from (problem,) if problem else pod_ipam.find_refusals(plan, pool_namespace)


def find_scheme_problem(plan: Plan, point_to_point_message: str) -> Problem | None:
    """Return a problem if the addressing scheme has no addresses for VFs, else None.

    `point_to_point_message` is the message for scheme point-to-point.
    """
    link, scheme, message = plan.common.link_type, plan.common.scheme, None
    if scheme == "point-to-point":
        message = point_to_point_message
    elif scheme == "none" and link == "ethernet":
        message = "RoCE needs IP addresses and scheme none plans none: write scheme shared-subnet or node-subnet"
    elif scheme == "node-subnet" and link == "infiniband":
        message = (
            "scheme node-subnet needs leaves that route IP, InfiniBand switches do not: write scheme shared-subnet, or "
            "none where pods need no IP addresses"
        )
    return Problem("stack-scheme", message, ("spec", "addressing", "scheme")) if message else None


def _check_vf_count(plan: Plan) -> Iterator[Problem]:
    path, link = ("spec", "vfs", "count"), plan.common.link_type
    limit = MAX_VFS if link == "ethernet" else MAX_IB_VFS
    if not plan.common.vfs:
        message = "pods get virtual functions on this stack, and vfs.count is 0: write how many a port shall have"
        yield Problem("stack-needs-vfs", f"{message}, for example 8", path)
    elif plan.common.vfs > limit:
        yield Problem(
            "stack-too-many-vfs",
            f"{plan.common.vfs} VFs a port; the operator and the NICs take {limit} on {link}: write {limit} or less",
            path,
        )


def _build_vf_objects(plan: Plan, namespace: str) -> Iterator[Manifest]:
    node_groups = group_nodes(plan)
    for rail in plan.common.rails:
        ports = [(group, port.netdev) for group in node_groups for port in group.ports if port.rail == rail.rail]
        yield from _build_node_policies(plan, rail, namespace, ports)


def build_mode_stage(plan: Plan, namespace: str) -> Stage:
    """Return the stage with the SriovNetworkPoolConfig, for an operator whose chart has started its daemons.

    The operator describes a node as soon as that has the fabric's label. It describes a node that is in no pool yet
    without a mode, and the daemon that reads this reboots the node (syncAllSriovNetworkNodeStates, v1.6.0).
    """
    return Stage("RDMA mode", (build_pool_config(plan, namespace),), before_labels=True)


def build_pool_config(plan: Plan, namespace: str, *, names_rdma_mode: bool = True) -> Manifest:
    """Return the SriovNetworkPoolConfig: the RDMA mode, and the limit of a roll-out, a tenth of the nodes at once.

    The limit is a number, as a percentage could be rounded down to 0. Apply this object before the operator's daemons
    run: without a mode they remove ib_core.netns_mode from the kernel's command line, and reboot the node. Operators
    before 1.5 have no field for it.
    """
    spec = {
        "maxUnavailable": max(1, plan.common.nodes // 10),
        "nodeSelector": {"matchLabels": get_node_labels(plan)},
        **({"rdmaMode": plan.common.rdma_mode} if names_rdma_mode else {}),
    }
    return build_manifest(API, "SriovNetworkPoolConfig", plan.common.fabric, namespace, spec=spec)


def _build_node_policies(
    plan: Plan, rail: RailPlan, namespace: str, ports_by_group: list[tuple[HardwareGroup, str]]
) -> Iterator[Manifest]:
    """Yield one SriovNetworkNodePolicy if the rail's port has one name on all nodes, else one for each group of nodes.

    `ports_by_group` are the groups with the rail and their port names.
    """
    uniform = len({netdev for _, netdev in ports_by_group}) == 1
    for group, netdev in ports_by_group[:1] if uniform else ports_by_group:
        name = rail.network if uniform else f"{rail.network}-g{group.index}"
        spec = _build_policy_spec(plan, rail, netdev, get_node_labels(plan) if uniform else group.node_labels)
        yield build_manifest(API, "SriovNetworkNodePolicy", name, namespace, spec=spec)


def _build_policy_spec(plan: Plan, rail: RailPlan, netdev: str, node_labels: dict[str, str]) -> dict[str, Any]:
    return {
        "resourceName": get_short_resource_name(rail),
        "nodeSelector": node_labels,
        "nicSelector": {"pfNames": [netdev]},
        "numVfs": plan.common.vfs,
        "mtu": plan.common.vf_mtu_bytes,
        "deviceType": "netdevice",
        "isRdma": True,
        "linkType": "eth" if plan.common.link_type == "ethernet" else "ib",
    }


def _build_vf_waits(plan: Plan, namespace: str, resource_prefix: str) -> Iterator[Wait]:
    """Yield waits for the operator's sync status of all nodes, and for their VFs, as the status may first be stale.

    All that comes twice: at the end of a sync the operator restarts the device plugin, which may have offered the VFs
    before (restartDevicePluginPod, pkg/daemon/daemon.go, v1.6.0). A pod that kubelet admits meanwhile fails for good.
    """
    synced = Wait("sriovnetworknodestates --all", "jsonpath={.status.syncStatus}=Succeeded", namespace, READY_SECONDS)
    offered = tuple(_build_offer_waits(plan, resource_prefix))
    yield from (synced, *offered)
    if offered:
        yield from (synced, Wait("daemonset/sriov-device-plugin", ROLLED_OUT, namespace, READY_SECONDS), *offered)


def _build_offer_waits(plan: Plan, resource_prefix: str) -> Iterator[Wait]:
    """Yield a wait for the VFs of each rail, where all nodes have all rails."""
    nodes = "nodes --selector=" + ",".join(f"{key}={value}" for key, value in get_node_labels(plan).items())
    if all(len(group.ports) == len(plan.common.rails) for group in group_nodes(plan)):
        for rail in plan.common.rails:
            path = get_resource_name(rail, resource_prefix).replace(".", "\\.")
            yield Wait(nodes, f"jsonpath={{.status.allocatable.{path}}}={plan.common.vfs}", None, READY_SECONDS)


def _build_network(plan: Plan, rail: RailPlan, namespace: str) -> Manifest:
    is_ethernet = plan.common.link_type == "ethernet"
    spec = drop_none(
        networkNamespace=plan.kubernetes.namespace,
        resourceName=get_short_resource_name(rail),
        ipam=pod_ipam.render_ipam(plan, rail),
        # In state auto, the default, the link of an InfiniBand VF would stay down. On Ethernet nothing is written:
        # plugin sriov sets what is written (sriov.go, ApplyVFConfig), and a driver without this setting, such as igb,
        # then refuses each pod.
        linkState=None if is_ethernet else "enable",
        spoofChk=to_on_off(enabled=plan.common.vf_spoof_check) if is_ethernet else None,
        trust=to_on_off(enabled=plan.common.vf_trust) if is_ethernet else None,
        metaPlugins=_render_meta_plugins(plan),
    )
    kind = "SriovNetwork" if is_ethernet else "SriovIBNetwork"
    return build_manifest(API, kind, rail.network, namespace, spec=spec)


def to_on_off(*, enabled: bool) -> str:
    """Return "on" or "off", as in `ip link`."""
    return "on" if enabled else "off"


def _render_meta_plugins(plan: Plan) -> str | None:
    """Return the CNI plugins that run after sriov, as JSON objects separated by commas; None if there are none."""
    plugins = list(_iter_meta_plugins(plan))
    return ",\n".join(map(json.dumps, plugins)) + "\n" if plugins else None


def _iter_meta_plugins(plan: Plan) -> Iterator[dict[str, Any]]:
    if plan.common.rdma_mode == "exclusive":
        yield {"type": "rdma"}
    if plan.common.link_type == "ethernet":
        yield {"type": "tuning", "sysctl": {f"net.ipv4.conf.IFNAME.{key}": value for key, value in POD_SYSCTLS.items()}}
    if plan.common.cross_rail == "routed":
        yield {"type": "sbr"}
