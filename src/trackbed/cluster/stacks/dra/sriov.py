"""`dra-sriov`: VFs as DRA devices; the SR-IOV DRA driver calls the CNI plugin, NV-IPAM or Whereabouts the IPAM.

The driver advertises nothing by default. A SriovResourcePolicy selects the VFs of each rail's port, a DeviceAttributes
object gives them the attributes `trackbed.dev/rail` and `trackbed.dev/fabric`, and claims select VFs by these. The
driver runs in mode STANDALONE: the claim's VfConfig names the network and the interface, so pods need no annotation and
no Multus. (Mode MULTUS, in which a network may be a list of plugins, needs a Multus that reads resource.k8s.io/v1;
4.3.0 takes the devices of a claim by the claim's own name, which a template does not tell.) Each VfConfig names its
request, as the driver ignores a VfConfig without a request. Follows github.com/k8snetworkplumbingwg/dra-driver-sriov at
cd9404f.
"""

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.stacks import pod_ipam
from trackbed.cluster.stacks import sriov as operator
from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.dra.claims import (
    build_claim_templates,
    build_device_class,
    build_driver_config,
    build_pod_claims,
    check_rail_count,
)
from trackbed.cluster.stacks.dra.cni_plugins import build_cni_config, get_image_name
from trackbed.cluster.stacks.groups import HardwareGroup, get_node_labels, group_nodes
from trackbed.cluster.stacks.network_operator import cni_installer
from trackbed.cluster.stacks.network_operator.policy import NAMESPACE as OPERATOR
from trackbed.cluster.stacks.network_operator.policy import (
    POLICY_READY,
    build_nic_cluster_policy,
    build_nv_ipam_section,
)
from trackbed.cluster.stacks.network_operator.secondary import build_charts
from trackbed.cluster.stacks.objects import Manifest, build_manifest, build_network_attachment
from trackbed.cluster.stacks.pci import find_pci_address
from trackbed.cluster.stacks.releases import choose_release
from trackbed.cluster.stacks.stack import Chart, Stack, Stage
from trackbed.cluster.stacks.traits import Share, Traits, Writes, count_claim_writes, share_always
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan, PortPlan, RailPlan

DRIVER = "sriovnetwork.k8snetworkplumbingwg.io"
API = f"{DRIVER}/v1alpha1"
NAMESPACE = "dra-driver-sriov"
"""Namespace of the driver, the only one in which it reads policies and attributes."""
DOMAIN = "trackbed.dev"
RAIL_LABEL = f"{DOMAIN}/rail"
"""Label by which a SriovResourcePolicy selects the DeviceAttributes of a rail."""
_NRI_TIMEOUT = (
    "an NRI request timeout that a ADD for each rail fits in (plugin_request_timeout in containerd, 2 s by default): "
    "after it the runtime drops the driver, and the pod starts without its rails"
)
_ONE_PLUGIN = (
    "rules by source address, ARP and reverse path settings of rails in pods: the driver runs a CNI plugin, no list; "
    "RDMA between rails has a route on each rail, other traffic between them leaves by one of them"
)
_TRACES = (
    "an end without traces: the driver forgets a pod with its first claim (DeleteClaim of pkg/podmanager), which "
    "kubelet may unprepare before the sandbox stops; then no CNI DEL runs, VFs come home as dev29, and files stay in "
    "/var/run/cdi and /var/lib/cni/sriov"
)
_RAN = (
    "2026-11-29, on emulated servers by its own charts and programs: dra-driver-sriov at cd9404f, sriov-cni 2.10.0, "
    "Network Operator 26.4.1, NV-IPAM, scheduler and kubelet of Kubernetes 1.36.3; RDMA (mode shared) on 8 of 8 rails "
    "between pods; after them all VFs and addresses were back, with other names and leftover files (below)"
)
_ATTRIBUTES = f'device.attributes["{DOMAIN}"]'


def _build_charts(plan: Plan) -> tuple[Chart, ...]:
    driver_image = choose_release(plan, "dra-driver-sriov").get_image("dra-driver-sriov")
    values = {
        "image": {
            "repository": f"{driver_image.repository}/{driver_image.image}",
            "tag": driver_image.version,
            "pullPolicy": "IfNotPresent",  # Always, the chart's default, stops the driver where the registry is away
        },
        "kubeletPlugin": {
            "configurationMode": "STANDALONE",
            "nodeSelector": get_node_labels(plan),
            "tolerations": [{"operator": "Exists"}],  # the chart has none, and nodes with GPUs often have a taint
        },
    }
    return (*build_charts(plan), Chart("dra-driver-sriov", NAMESPACE, values))


def _build_stages(plan: Plan) -> Iterator[Stage]:
    sections = {"nvIpam": build_nv_ipam_section(plan)} if pod_ipam.uses_nv_ipam(plan) else {}
    if sections or plan.kubernetes.driver == "container":
        yield Stage("operator", (build_nic_cluster_policy(plan, **sections),), (POLICY_READY,))
    yield Stage(
        "CNI plugin",
        (cni_installer.build_daemon_set(plan, NAMESPACE, [get_image_name(plan)]),),
        (cni_installer.build_wait(NAMESPACE),),
    )
    yield from pod_ipam.build_pool_stages(plan, OPERATOR)
    yield Stage(
        "networks",
        (
            build_network_attachment(rail.network, plan.kubernetes.namespace, build_cni_config(plan, rail))
            for rail in plan.common.rails
        ),
    )
    yield Stage("devices", _build_device_objects(plan))
    selectors = [f"has({_ATTRIBUTES}.rail) && {_ATTRIBUTES}.rail == {rail.rail}" for rail in plan.common.rails]
    configs = [_build_vf_config(rail) for rail in plan.common.rails]
    yield Stage("claim templates", build_claim_templates(plan, selectors, configs))


def _build_device_objects(plan: Plan) -> Iterator[Manifest]:
    """Yield the DeviceAttributes of each rail, the SriovResourcePolicies and the DeviceClass."""
    for rail in plan.common.rails:
        yield _build_device_attributes(plan, rail)
    for group in group_nodes(plan):
        yield _build_resource_policy(plan, group)
    in_fabric = f'has({_ATTRIBUTES}.fabric) && {_ATTRIBUTES}.fabric == "{plan.common.fabric}"'
    yield build_device_class(plan, f'device.driver == "{DRIVER}" && {in_fabric}')


def _build_device_attributes(plan: Plan, rail: RailPlan) -> Manifest:
    attributes = {f"{DOMAIN}/fabric": {"string": plan.common.fabric}, RAIL_LABEL: {"int": rail.rail}}
    return build_manifest(
        API,
        "DeviceAttributes",
        f"{plan.common.fabric}-rail{rail.rail}",
        NAMESPACE,
        labels=_build_rail_labels(plan, rail.rail),
        spec={"attributes": attributes},
    )


def _build_rail_labels(plan: Plan, rail_number: int) -> dict[str, str]:
    return {f"{DOMAIN}/fabric": plan.common.fabric, RAIL_LABEL: str(rail_number)}


def _build_resource_policy(plan: Plan, group: HardwareGroup) -> Manifest:
    """Return the SriovResourcePolicy of a group of nodes, which assigns the VFs of each port to the port's rail."""
    terms = [{"key": key, "operator": "In", "values": [value]} for key, value in group.node_labels.items()]
    configs = [
        {
            "deviceAttributesSelector": {"matchLabels": _build_rail_labels(plan, port.rail)},
            "resourceFilters": [_build_port_filter(port)],
        }
        for port in group.ports
    ]
    spec = {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": terms}]}, "configs": configs}
    name = plan.common.fabric if group.is_only_group else f"{plan.common.fabric}-g{group.index}"
    return build_manifest(API, "SriovResourcePolicy", name, NAMESPACE, spec=spec)


def _build_port_filter(port: PortPlan) -> dict[str, list[str]]:
    address = find_pci_address(port)
    return {"pfPciAddresses": [address]} if address else {"pfNames": [port.netdev]}


def _build_vf_config(rail: RailPlan) -> dict[str, Any]:
    """Return the claim's driver settings for a rail: its network, and the name of its interface in the pod."""
    parameters = {"apiVersion": API, "kind": "VfConfig", "ifName": rail.pod_netdev, "netAttachDefName": rail.network}
    return build_driver_config(DRIVER, parameters, f"rail{rail.rail}")


def _find_refusals(plan: Plan) -> Iterator[Problem]:
    if not plan.common.vfs:
        yield Problem(
            "stack-needs-vfs",
            "this stack gives VFs to pods and the Fabric plans none: write vfs.count, for example 8",
            ("spec", "vfs", "count"),
        )
    if plan.kubernetes.pkey is not None:
        yield Problem(
            "stack-pkey",
            "nothing makes a VF that a claim gives out a member of an InfiniBand partition: leave out pkey, or choose "
            "network-operator-ib-sriov or spiderpool",
            ("spec", "kubernetes", "pkey"),
        )
    if plan.common.rdma_mode == "exclusive" and plan.common.link_type == "ethernet":
        yield Problem(
            "stack-rdma-mode",
            "the driver runs one CNI plugin for a VF, sriov, which leaves the VF's RDMA device on the host: write "
            "rdma.namespaceMode shared, or choose network-operator-sriov",
            ("spec", "rdma", "namespaceMode"),
        )
    yield from check_rail_count(plan)
    message = (
        "a /31 has no address for a VF beside the port's: write scheme node-subnet, or choose dranet, which moves "
        "the port itself"
    )
    problem = operator.find_scheme_problem(plan, message)
    yield from (problem,) if problem else pod_ipam.find_refusals(plan, OPERATOR)


def _count_writes(plan: Plan) -> Writes:
    """Return the writes for a claim; the IPAM's are added where it is Whereabouts."""
    claim = count_claim_writes(plan)
    if plan.kubernetes.ipam != "whereabouts" or not plan.common.has_addresses:
        return claim
    return Writes(4 + 5 * len(plan.common.rails), f"{claim.source}; Whereabouts, measured: 5 a rail", is_minimum=True)


STACK = Stack(
    name="dra-sriov",
    title="The SR-IOV DRA driver gives pods VFs by claim and runs their CNI plugin; NV-IPAM or Whereabouts deals",
    traits=Traits(
        share_always(Share.VF),
        "preview",
        "NVIDIA and the driver's authors call it a technology preview",
        _count_writes,
        kubernetes="1.34",
        ran=_RAN,
    ),
    needs=(
        "Kubernetes 1.34",
        "containerd 2.0 or CRI-O with NRI and CDI",
        _NRI_TIMEOUT,
        "the VFs of vfs.count on every port before the driver starts",
        "no SR-IOV device plugin and no network resources injector beside it (enableInjector: false)",
        "no feature gate dynamicResourceAllocation in an SR-IOV Network Operator: it runs its own copy of the driver",
        "for the template with GPUs: NVIDIA's DRA driver for GPUs",
    ),
    cannot=(
        "the template with GPUs on GB300 and Vera Rubin: there the NIC's PCIe root is not its GPU's (Data Direct)",
        "InfiniBand partitions: nothing tells the subnet manager of a claim's VF",
        _ONE_PLUGIN,
        _TRACES,
        "more than a technology preview: so NVIDIA and the driver's authors call it",
    ),
    charts=_build_charts,
    stages=_build_stages,
    access=lambda plan: Access(claims=build_pod_claims(plan)),
    refusals=_find_refusals,
    deploys_driver=True,
)
