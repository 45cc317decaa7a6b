"""SpiderMultusConfig: a network for each rail, from which Spiderpool creates the NetworkAttachmentDefinition.

sriov      a VF moves into the pod; the tuning plugin sets its MTU, the RDMA plugin moves its RDMA device
ib-sriov   a VF moves into the pod; ib-kubernetes adds it to the InfiniBand partition, if there is one
macvlan    a sub-interface of the port; pods share the RDMA devices of all rails by one resource

Each network has the annotation `cni.spidernet.io/rdma-resource-inject: <fabric>`. If Spiderpool's pod webhook is
enabled, a pod with the same annotation gets all rails. Trackbed adds networks and resources to pods itself, as the
webhook sorts networks as text (rail10 before rail2) and edits pods after a queue has counted their resources.
"""

from typing import Any

from trackbed.cluster.stacks import ib_kubernetes
from trackbed.cluster.stacks.objects import Manifest, build_manifest, drop_none
from trackbed.cluster.stacks.port_names import find_port_name
from trackbed.cluster.stacks.rails import choose_resource_prefix, get_resource_name
from trackbed.cluster.stacks.spiderpool.pools import API, get_pool_name, list_ip_versions
from trackbed.fabric.plan.plan import Plan, RailPlan

PREFIX = "spidernet.io"
"""Default resource prefix of the SR-IOV operator and RDMA device plugin that Spiderpool's chart installs."""
INJECT = "cni.spidernet.io/rdma-resource-inject"


def choose_cni_plugin(plan: Plan) -> str:
    """Return the CNI plugin of the networks: macvlan if the plan has no VFs, else sriov or ib-sriov."""
    if not plan.common.vfs:
        return "macvlan"
    return "sriov" if plan.common.link_type == "ethernet" else "ib-sriov"


def build_network(plan: Plan, rail: RailPlan) -> Manifest:
    """Return the SpiderMultusConfig of a rail, in the namespace of pods."""
    ip_versions = list_ip_versions(plan)
    cni = choose_cni_plugin(plan)
    build = {"sriov": _build_sriov_fields, "ib-sriov": _build_ib_sriov_fields, "macvlan": _build_macvlan_fields}[cni]
    spec: dict[str, Any] = {"cniType": cni} if ip_versions else {"cniType": cni, "disableIPAM": True}
    spec[cni.replace("-", "")] = build(plan, rail) | (
        {"ippools": _build_pool_patterns(plan, rail)} if ip_versions else {}
    )
    annotations = {INJECT: plan.common.fabric} if ip_versions else None
    return build_manifest(
        API, "SpiderMultusConfig", rail.network, plan.kubernetes.namespace, annotations=annotations, spec=spec
    )


def get_shared_resource_name(plan: Plan) -> str:
    """Return the name of the single resource that stands for all rails with macvlan, in which pods get all devices."""
    return f"{choose_resource_prefix(plan, PREFIX)}/{plan.common.fabric.replace('-', '_')}"


def _build_sriov_fields(plan: Plan, rail: RailPlan) -> dict[str, Any]:
    return {
        "resourceName": get_resource_name(rail, PREFIX),
        "rdmaIsolation": plan.common.rdma_mode == "exclusive",
        "mtu": plan.common.vf_mtu_bytes,
    }


def _build_ib_sriov_fields(plan: Plan, rail: RailPlan) -> dict[str, Any]:
    """Return the fields of a network of type ib-sriov; with a PKey ib-kubernetes must inform the subnet manager."""
    pkey = plan.kubernetes.pkey
    return drop_none(
        resourceName=get_resource_name(rail, PREFIX),
        rdmaIsolation=plan.common.rdma_mode == "exclusive",
        pkey=ib_kubernetes.format_pkey(pkey) if pkey is not None else None,
        enableIbKubernetes=True if pkey is not None else None,
    )


def _build_macvlan_fields(plan: Plan, rail: RailPlan) -> dict[str, Any]:
    """Return the fields of a network of type macvlan, whose interfaces have the MTU of the port."""
    return {"master": [find_port_name(plan, rail)], "rdmaResourceName": get_shared_resource_name(plan)}


def _build_pool_patterns(plan: Plan, rail: RailPlan) -> dict[str, Any]:
    wildcards = {f"ipv{version}": [get_pool_name(rail, version, "*")] for version in list_ip_versions(plan)}
    matches_subnet = choose_cni_plugin(plan) == "sriov" and plan.common.scheme == "node-subnet"
    return wildcards | ({"matchMasterSubnet": True} if matches_subnet else {})
