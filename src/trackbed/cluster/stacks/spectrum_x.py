"""`spectrum-x`: NVIDIA's Spectrum-X operator gives each pod a VF of each rail on an OVS bridge, with a routed /31.

A SpectrumXRailPoolConfig lists the rails. For each rail the operator creates a policy with one VF in switchdev mode, an
OVS bridge with the port as uplink, the flows, and a network. The RDMA device in the pod is named `rdma_<rail>`. The
node's only address of a /31 belongs to the pod, so the port on the host must not have it. Follows NVIDIA's Spectrum-X
Kubernetes quick start (single plane) and the v1alpha2 API.
"""

import re
from collections.abc import Iterator
from typing import Any

from trackbed.cluster.stacks import nv_ipam
from trackbed.cluster.stacks.access import Access, Hca
from trackbed.cluster.stacks.groups import get_node_labels
from trackbed.cluster.stacks.network_operator.policy import (
    COMPONENT,
    NAMESPACE,
    POLICY_READY,
    build_image_fields,
    build_multus_section,
    build_nic_cluster_policy,
    build_nv_ipam_section,
    build_operator_chart,
)
from trackbed.cluster.stacks.objects import Manifest, build_manifest, to_json_text
from trackbed.cluster.stacks.port_names import check_port_names, find_port_name
from trackbed.cluster.stacks.rails import build_networks, choose_resource_prefix
from trackbed.cluster.stacks.releases import choose_release
from trackbed.cluster.stacks.stack import Chart, Stack, Stage, Wait
from trackbed.cluster.stacks.traits import Share, Traits, count_multus_writes, share_always
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.model.ranges import V4, V6
from trackbed.fabric.plan.plan import Plan, RailPlan

PREFIX = "nvidia.com"
FIRST_VERSION = (26, 4)
"""The operator's first release with v1alpha2 of the Spectrum-X operator, as (major, minor)."""
_NETWORK_NAME = re.compile(r"[a-z0-9]{1,15}")
"""Valid network names: the operator uses them for device plugin resources (no dashes) and VRFs (at most 15 bytes)."""


def _build_charts(plan: Plan) -> tuple[Chart, ...]:
    """Return the Network Operator's chart with the SR-IOV operator, which manages OVS bridges but not firmware."""
    sriov = {
        "operator": {"resourcePrefix": choose_resource_prefix(plan, PREFIX)},
        "sriovOperatorConfig": {
            "deploy": True,
            "configDaemonNodeSelector": get_node_labels(plan),
            "featureGates": {"manageSoftwareBridges": True},
            "disablePlugins": ["mellanox"],
        },
    }
    return build_operator_chart(plan, sriovNetworkOperator={"enabled": True}, **{"sriov-network-operator": sriov})


def _build_stages(plan: Plan) -> Iterator[Stage]:
    policy = build_nic_cluster_policy(
        plan,
        nvIpam=build_nv_ipam_section(plan),
        spectrumXOperator=build_image_fields(plan, "spectrum-x-operator"),
        secondaryNetwork=build_multus_section(plan),
    )
    synced = Wait(
        f"spectrumxrailpoolconfig/{plan.common.fabric}", "jsonpath={.status.syncStatus}=Succeeded", NAMESPACE, 7200
    )
    yield Stage("operator", (policy,), (POLICY_READY,))
    yield Stage("pools", nv_ipam.build_pools(plan, NAMESPACE), nv_ipam.build_pool_waits(plan, NAMESPACE))
    yield Stage("rails", (_build_rail_pool_config(plan),), (synced,))


def _build_rail_pool_config(plan: Plan) -> Manifest:
    """Return the SpectrumXRailPoolConfig of all rails; their VFs are resources of the device plugin, not of DRA."""
    spec = {
        "draEnabled": False,
        "networkNamespace": plan.kubernetes.namespace,
        "nodeSelector": get_node_labels(plan),
        "numVfs": plan.common.vfs,
        "railTopology": [_build_rail_topology(plan, rail) for rail in plan.common.rails],
    }
    return build_manifest(
        "spectrumx.nvidia.com/v1alpha2", "SpectrumXRailPoolConfig", plan.common.fabric, NAMESPACE, spec=spec
    )


def _build_rail_topology(plan: Plan, rail: RailPlan) -> dict[str, Any]:
    """Return the entry of a rail in the SpectrumXRailPoolConfig, with a single port, as several would mean planes."""
    return {
        "name": rail.network,
        "nicSelector": {"pfNames": [find_port_name(plan, rail)]},
        **_build_pool_reference(plan, rail),
        "mtu": plan.common.mtu_bytes,
    }


def _build_pool_reference(plan: Plan, rail: RailPlan) -> dict[str, str]:
    """Return the field that names the rail's pool, or with both IP versions a whole IPAM configuration instead."""
    if rail.v4 is None or rail.v6 is None:
        return {"cidrPoolRef": nv_ipam.get_pool_name(rail, V6 if rail.v4 is None else V4)}
    return {"ipam": to_json_text(nv_ipam.build_ipam(plan, rail))}


def _build_access(plan: Plan) -> Access:
    resource_prefix, rails = choose_resource_prefix(plan, PREFIX), plan.common.rails
    return Access(
        networks=build_networks(plan),
        resources=tuple((f"{resource_prefix}/{rail.network}", 1) for rail in rails),
        hcas=tuple(Hca(f"rdma_{rail.network}", 1, rail.rail) for rail in rails),
    )


def _find_refusals(plan: Plan) -> Iterator[Problem]:
    operator = choose_release(plan, COMPONENT)
    if operator.number < FIRST_VERSION:
        yield Problem(
            "stack-version",
            f"{COMPONENT} {operator.version} has no v1alpha2 of SpectrumXRailPoolConfig: take v26.4.0 or newer",
            ("spec", "kubernetes", "versions"),
        )
    yield from _check_fabric_settings(plan)
    yield from _check_vfs(plan)
    yield from _check_network_names(plan)
    yield from check_port_names(plan, "SpectrumXRailPoolConfig")
    if plan.common.scheme == "point-to-point":
        yield from nv_ipam.find_refusals(plan, NAMESPACE)


def _check_fabric_settings(plan: Plan) -> Iterator[Problem]:
    if plan.common.link_type != "ethernet":
        yield Problem(
            "stack-link-type",
            "Spectrum-X is Ethernet: choose network-operator-ib-sriov for InfiniBand",
            ("spec", "linkType"),
        )
    if plan.common.scheme != "point-to-point":
        yield Problem(
            "stack-scheme",
            f"Spectrum-X routes to the host, scheme {plan.common.scheme} does not: write scheme point-to-point, or "
            "choose network-operator-sriov",
            ("spec", "addressing", "scheme"),
        )
    if plan.common.rdma_mode != "exclusive":
        yield Problem(
            "stack-rdma-mode",
            "the operator sets RDMA namespace mode exclusive: leave out rdma.namespaceMode",
            ("spec", "rdma", "namespaceMode"),
        )


def _check_vfs(plan: Plan) -> Iterator[Problem]:
    path = ("spec", "vfs", "count")
    if not plan.common.vfs:
        yield Problem("stack-needs-vfs", "Spectrum-X gives pods a VF of each rail: write vfs.count 1", path)
    elif plan.common.vfs > 1:
        yield Problem(
            "stack-vf-count",
            f"a /31 has one address for pods, {plan.common.vfs} VFs would wait for it, and Spectrum-X profiles of "
            "NICs want one VF: write vfs.count 1",
            path,
        )
    if plan.common.vf_mtu_bytes != plan.common.mtu_bytes:
        yield Problem(
            "stack-vf-mtu",
            f"the operator gives VF and port one MTU, here are {plan.common.vf_mtu_bytes} and {plan.common.mtu_bytes}: "
            "leave out vfs.mtu",
            ("spec", "vfs", "mtu"),
        )


def _check_network_names(plan: Plan) -> Iterator[Problem]:
    invalid = [rail.network for rail in plan.common.rails if not _NETWORK_NAME.fullmatch(rail.network)]
    if invalid:
        yield Problem(
            "stack-network-name",
            f"the operator makes of a rail's name a resource and a VRF, and {invalid[0]!r} cannot be both: write "
            "names.network with lower case letters and digits, 15 at most, for example rail{rail}",
            ("spec", "names", "network"),
        )


STACK = Stack(
    name="spectrum-x",
    title="NVIDIA's Spectrum-X operator: a VF of each rail on an OVS bridge, its /31 of the routed fabric from NV-IPAM",
    traits=Traits(
        share_always(Share.VF),
        "released",
        "NVIDIA's product, generally available since Network Operator 26.1",
        count_multus_writes,
        operators=("OVS-DOCA on the hosts",),
    ),
    needs=(
        "NVIDIA Network Operator 26.4",
        "OVS-DOCA on the hosts",
        "NICs with NVIDIA's Spectrum-X profile (spectrumXOptimized of a NicConfigurationTemplate; not public)",
        "no addresses on the hosts' ports: each /31 has one, and the pod's VF carries it",
    ),
    cannot=(
        "more than one pod a node on a rail",
        nv_ipam.FIXED_IPV6,
        "several planes a rail",
        "InfiniBand",
    ),
    charts=_build_charts,
    stages=_build_stages,
    access=_build_access,
    refusals=_find_refusals,
    deploys_driver=True,
)
