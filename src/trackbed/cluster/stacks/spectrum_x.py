"""`spectrum-x`: Spectrum-X by its own operator: a VF of each rail on an OVS bridge, a routed /31 from NV-IPAM.

One SpectrumXRailPoolConfig says the rails; the operator makes of it what others write by hand: a policy with one VF
in switchdev mode, an OVS bridge with the port as uplink, the flows, and a network. In the pod the RDMA device is
called `rdma_<rail>`. The node's one address of a /31 belongs to the pod, so the port on the host must not have it too.
Follows NVIDIA's Spectrum-X Kubernetes quick start (single plane) and the v1alpha2 API.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from trackbed.cluster.stacks import nv_ipam
from trackbed.cluster.stacks.access import Access, Hca
from trackbed.cluster.stacks.groups import selector
from trackbed.cluster.stacks.network_operator.policy import (
    NAMESPACE,
    READY,
    image,
    multus,
    nic_cluster_policy,
    operator_chart,
)
from trackbed.cluster.stacks.objects import Manifest, json_text, manifest
from trackbed.cluster.stacks.port_names import unlike_names
from trackbed.cluster.stacks.rails import networks, prefix
from trackbed.cluster.stacks.stack import Chart, Stack, Stage, Wait
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan, RailPlan

PREFIX = "nvidia.com"
_NAME = re.compile(r"[a-z0-9]{1,15}")
"""A rail's name becomes a resource of the device plugin, which takes no dash, and a VRF's name, of 15 bytes at most."""


def _charts(plan: Plan) -> tuple[Chart, ...]:
    """The operator with SR-IOV: it manages the bridges, and leaves firmware to the NIC Configuration Operator."""
    sriov = {
        "operator": {"resourcePrefix": prefix(plan, PREFIX)},
        "sriovOperatorConfig": {
            "deploy": True,
            "featureGates": {"manageSoftwareBridges": True},
            "disablePlugins": ["mellanox"],
        },
    }
    return operator_chart(plan, sriovNetworkOperator={"enabled": True}, **{"sriov-network-operator": sriov})


def _stages(plan: Plan) -> Iterator[Stage]:
    policy = nic_cluster_policy(
        plan,
        nvIpam=image(plan, "nv-ipam") | {"enableWebhook": False},
        spectrumXOperator=image(plan, "spectrum-x-operator"),
        secondaryNetwork=multus(plan),
    )
    done = Wait(
        f"spectrumxrailpoolconfig/{plan.common.fabric}", "jsonpath={.status.syncStatus}=Succeeded", NAMESPACE, 7200
    )
    yield Stage("operator", (policy,), (READY,))
    yield Stage("pools", nv_ipam.pools(plan, NAMESPACE), nv_ipam.allocated(plan, NAMESPACE))
    yield Stage("rails", (_rails(plan),), (done,))


def _rails(plan: Plan) -> Manifest:
    """All rails; the device plugin counts their VFs, since claims are on by default and exclude it."""
    spec = {
        "draEnabled": False,
        "networkNamespace": plan.kubernetes.namespace,
        "nodeSelector": selector(plan),
        "numVfs": plan.common.vfs,
        "railTopology": [_topology(plan, rail) for rail in plan.common.rails],
    }
    return manifest(
        "spectrumx.nvidia.com/v1alpha2", "SpectrumXRailPoolConfig", plan.common.fabric, NAMESPACE, spec=spec
    )


def _topology(plan: Plan, rail: RailPlan) -> dict[str, Any]:
    """One rail. Several names in pfNames would mean several planes, not several kinds of node."""
    ports = (node.find_port(rail.rail) for node in plan.nodes)
    name = next((port.netdev for port in ports if port is not None), rail.netdev)
    return {
        "name": rail.network,
        "nicSelector": {"pfNames": [name]},
        **_addresses(plan, rail),
        "mtu": plan.common.mtu_bytes,
    }


def _addresses(plan: Plan, rail: RailPlan) -> dict[str, str]:
    """The rail's pool; pools of both IP versions can only be said as a whole IPAM configuration."""
    if rail.v4 is None or rail.v6 is None:
        return {"cidrPoolRef": nv_ipam.pool_name(rail, 6 if rail.v4 is None else 4)}
    return {"ipam": json_text(nv_ipam.ipam(plan, rail))}


def _access(plan: Plan) -> Access:
    own, rails = prefix(plan, PREFIX), plan.common.rails
    return Access(
        networks=networks(plan),
        resources=tuple((f"{own}/{rail.network}", 1) for rail in rails),
        hcas=tuple(Hca(f"rdma_{rail.network}", 1, rail.rail) for rail in rails),
    )


def _refusals(plan: Plan) -> Iterator[Problem]:
    yield from _fabric(plan)
    yield from _vfs(plan)
    yield from _names(plan)
    yield from unlike_names(plan, "SpectrumXRailPoolConfig")
    if plan.common.scheme == "point-to-point":
        yield from nv_ipam.refusals(plan, NAMESPACE)


def _fabric(plan: Plan) -> Iterator[Problem]:
    if plan.common.link_type != "ethernet":
        message = "Spectrum-X is Ethernet: choose network-operator-ib-sriov for InfiniBand"
        yield Problem("stack-link-type", message, ("spec", "linkType"))
    if plan.common.scheme != "point-to-point":
        message = (
            f"Spectrum-X routes to the host, scheme {plan.common.scheme} does not: write scheme point-to-point, or "
            "choose network-operator-sriov"
        )
        yield Problem("stack-scheme", message, ("spec", "addressing", "scheme"))
    if plan.common.rdma_mode != "exclusive":
        message = "the operator sets RDMA namespace mode exclusive: leave out rdma.namespaceMode"
        yield Problem("stack-rdma-mode", message, ("spec", "rdma", "namespaceMode"))


def _vfs(plan: Plan) -> Iterator[Problem]:
    path = ("spec", "vfs", "count")
    if not plan.common.vfs:
        yield Problem("stack-needs-vfs", "Spectrum-X gives pods a VF of each rail: write vfs.count 1", path)
    elif plan.common.vfs > 1:
        message = (
            f"a /31 has one address for pods, {plan.common.vfs} VFs would wait for it, and Spectrum-X profiles of "
            "NICs want one VF: write vfs.count 1"
        )
        yield Problem("stack-vf-count", message, path)
    if plan.common.vf_mtu_bytes != plan.common.mtu_bytes:
        message = (
            f"the operator gives VF and port one MTU, here are {plan.common.vf_mtu_bytes} and {plan.common.mtu_bytes}: "
            "leave out vfs.mtu"
        )
        yield Problem("stack-vf-mtu", message, ("spec", "vfs", "mtu"))


def _names(plan: Plan) -> Iterator[Problem]:
    wrong = [rail.network for rail in plan.common.rails if not _NAME.fullmatch(rail.network)]
    if wrong:
        message = (
            f"the operator makes of a rail's name a resource and a VRF, and {wrong[0]!r} cannot be both: write "
            "names.network with lower case letters and digits, 15 at most, for example rail{rail}"
        )
        yield Problem("stack-network-name", message, ("spec", "names", "network"))


STACK = Stack(
    name="spectrum-x",
    title="NVIDIA's Spectrum-X operator: a VF of each rail on an OVS bridge, its /31 of the routed fabric from NV-IPAM",
    needs=(
        "NVIDIA Network Operator 26.4",
        "OVS-DOCA on the hosts",
        "NICs with NVIDIA's Spectrum-X profile (spectrumXOptimized of a NicConfigurationTemplate; not public)",
        "no addresses on the hosts' ports: each /31 has one, and the pod's VF carries it",
    ),
    cannot=(
        "more than one pod a node on a rail",
        "several planes a rail",
        "InfiniBand",
    ),
    charts=_charts,
    stages=_stages,
    access=_access,
    refusals=_refusals,
)
