"""`dra-sriov`: VFs as DRA devices; the SR-IOV DRA driver runs the CNI plugin, NV-IPAM or Whereabouts deals addresses.

The driver advertises nothing by itself: a SriovResourcePolicy picks the VFs of each rail's port, a DeviceAttributes
object gives them the attributes `trackbed.dev/rail` and `trackbed.dev/fabric`, and claims ask by these. It runs in mode
STANDALONE: the claim's VfConfig names the network and the interface, so pods need no annotation and no Multus. Each
VfConfig names its request; the driver overlooks one that names none. Follows k8snetworkplumbingwg/dra-driver-sriov.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.stacks import pod_ipam
from trackbed.cluster.stacks import sriov as operator
from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.dra.claims import claims, device_class, opaque, templates, too_many_rails
from trackbed.cluster.stacks.dra.cni_plugins import cni_plugins, network_config
from trackbed.cluster.stacks.groups import Group, groups, selector
from trackbed.cluster.stacks.network_operator.policy import NAMESPACE as OPERATOR
from trackbed.cluster.stacks.network_operator.policy import READY, image, multus, nic_cluster_policy, operator_chart
from trackbed.cluster.stacks.objects import Manifest, manifest, network_attachment
from trackbed.cluster.stacks.pci import pci_address
from trackbed.cluster.stacks.releases import release
from trackbed.cluster.stacks.stack import Chart, Stack, Stage
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan, PortPlan, RailPlan

DRIVER = "sriovnetwork.k8snetworkplumbingwg.io"
API = f"{DRIVER}/v1alpha1"
NAMESPACE = "dra-driver-sriov"
"""The driver reads policies and attributes of its own namespace only."""
DOMAIN = "trackbed.dev"
LABEL = f"{DOMAIN}/rail"
"""Label that ties a policy to the attributes of its rail."""
_ATTRIBUTES = f'device.attributes["{DOMAIN}"]'


def _charts(plan: Plan) -> tuple[Chart, ...]:
    found = release(plan, "dra-driver-sriov").image("dra-driver-sriov")
    values = {
        "image": {"repository": f"{found.repository}/{found.image}", "tag": found.version},
        "kubeletPlugin": {"configurationMode": "STANDALONE", "nodeSelector": selector(plan)},
    }
    return (*operator_chart(plan), *pod_ipam.charts(plan), Chart("dra-driver-sriov", NAMESPACE, values))


def _stages(plan: Plan) -> Iterator[Stage]:
    yield Stage("operator", (_nic_cluster_policy(plan),), (READY,))
    yield Stage("CNI plugins", (cni_plugins(plan, NAMESPACE),))
    yield from pod_ipam.pool_stages(plan, OPERATOR)
    yield Stage("networks", (_network(plan, rail) for rail in plan.common.rails))
    yield Stage("devices", _devices(plan))
    tests = [_selector(rail) for rail in plan.common.rails]
    configs = [_vf_config(rail) for rail in plan.common.rails]
    yield Stage("claim templates", templates(plan, tests, configs))


def _nic_cluster_policy(plan: Plan) -> Manifest:
    dealt = {"nvIpam": image(plan, "nv-ipam") | {"enableWebhook": False}} if pod_ipam.nv_ipam_chosen(plan) else {}
    return nic_cluster_policy(plan, **dealt, secondaryNetwork=multus(plan))


def _devices(plan: Plan) -> Iterator[Manifest]:
    for rail in plan.common.rails:
        yield _attributes(plan, rail)
    for group in groups(plan):
        yield _policy(plan, group)
    own = f'has({_ATTRIBUTES}.fabric) && {_ATTRIBUTES}.fabric == "{plan.common.fabric}"'
    yield device_class(plan, f'device.driver == "{DRIVER}" && {own}')


def _attributes(plan: Plan, rail: RailPlan) -> Manifest:
    attributes = {f"{DOMAIN}/fabric": {"string": plan.common.fabric}, LABEL: {"int": rail.rail}}
    return manifest(
        API,
        "DeviceAttributes",
        f"{plan.common.fabric}-rail{rail.rail}",
        NAMESPACE,
        labels=_labels(plan, rail.rail),
        spec={"attributes": attributes},
    )


def _labels(plan: Plan, rail: int) -> dict[str, str]:
    return {f"{DOMAIN}/fabric": plan.common.fabric, LABEL: str(rail)}


def _policy(plan: Plan, group: Group) -> Manifest:
    """Which VFs are which rail on one kind of node; a VF takes the first config that fits it."""
    terms = [{"key": key, "operator": "In", "values": [value]} for key, value in group.selector.items()]
    configs = [
        {"deviceAttributesSelector": {"matchLabels": _labels(plan, port.rail)}, "resourceFilters": [_filter(port)]}
        for port in group.ports
    ]
    spec = {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": terms}]}, "configs": configs}
    name = plan.common.fabric if group.alone else f"{plan.common.fabric}-g{group.index}"
    return manifest(API, "SriovResourcePolicy", name, NAMESPACE, spec=spec)


def _filter(port: PortPlan) -> dict[str, list[str]]:
    address = pci_address(port)
    return {"pfPciAddresses": [address]} if address else {"pfNames": [port.netdev]}


def _selector(rail: RailPlan) -> str:
    return f"has({_ATTRIBUTES}.rail) && {_ATTRIBUTES}.rail == {rail.rail}"


def _network(plan: Plan, rail: RailPlan) -> Manifest:
    return network_attachment(rail.network, plan.kubernetes.namespace, network_config(plan, rail))


def _vf_config(rail: RailPlan) -> dict[str, Any]:
    parameters = {"apiVersion": API, "kind": "VfConfig", "ifName": f"rail{rail.rail}", "netAttachDefName": rail.network}
    return opaque(DRIVER, parameters, f"rail{rail.rail}")


def _access(plan: Plan) -> Access:
    return Access(claims=claims(plan))


def _refusals(plan: Plan) -> Iterator[Problem]:
    if not plan.common.vfs:
        message = "this stack gives VFs to pods and the Fabric plans none: write vfs.count, for example 8"
        yield Problem("stack-needs-vfs", message, ("spec", "vfs", "count"))
    if plan.kubernetes.pkey is not None:
        message = (
            "nothing makes a VF that a claim gives out a member of an InfiniBand partition: leave out pkey, or choose "
            "network-operator-ib-sriov or spiderpool"
        )
        yield Problem("stack-pkey", message, ("spec", "kubernetes", "pkey"))
    yield from too_many_rails(plan)
    yield from _addressing(plan)


def _addressing(plan: Plan) -> Iterator[Problem]:
    message = (
        "a /31 has no address for a VF beside the port's: write scheme node-subnet, or choose dranet, which moves "
        "the port itself"
    )
    problem = operator.find_scheme_problem(plan, message)
    yield from (problem,) if problem else pod_ipam.refusals(plan, OPERATOR)


STACK = Stack(
    name="dra-sriov",
    title="The SR-IOV DRA driver gives pods VFs by claim and runs their CNI plugin; NV-IPAM or Whereabouts deals",
    needs=(
        "Kubernetes 1.34",
        "containerd 2.0 or CRI-O with NRI and CDI",
        "the VFs of vfs.count on every port before the driver starts",
        "no SR-IOV device plugin and no network resources injector beside it (enableInjector: false)",
        "no feature gate dynamicResourceAllocation in an SR-IOV Network Operator: it runs its own copy of the driver",
        "for the template with GPUs: NVIDIA's DRA driver for GPUs",
    ),
    cannot=(
        "the template with GPUs on GB300 and Vera Rubin: there the NIC's PCIe root is not its GPU's (Data Direct)",
        "InfiniBand partitions: nothing tells the subnet manager of a claim's VF",
        "more than a technology preview: so NVIDIA and the driver's authors call it",
    ),
    charts=_charts,
    stages=_stages,
    access=_access,
    refusals=_refusals,
)
