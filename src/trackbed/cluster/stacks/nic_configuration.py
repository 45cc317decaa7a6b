"""`nic-configuration`: firmware settings, QoS and names of the ports by NVIDIA's NIC Configuration Operator.

A complement of other stacks: it attaches nothing to pods. Without it a NIC may come up as InfiniBand, without VFs, or
trusting no DSCP, and nobody says so. It drains nodes and reboots them where firmware wants it, which the maintenance
operator allows for one node at a time. A device takes one template only; two that fit it are both left alone, so
templates select nodes by the fabric's labels and ports by PCI address where the Fabric has them. Follows NVIDIA's pages
on the NIC Configuration Operator and the CRDs with their CEL rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.stacks.groups import Group, groups
from trackbed.cluster.stacks.network_operator.policy import NAMESPACE, READY, image, nic_cluster_policy, operator_chart
from trackbed.cluster.stacks.objects import Manifest, manifest, without_none
from trackbed.cluster.stacks.pci import pci_address
from trackbed.cluster.stacks.stack import Chart, Stack, Stage
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan

API = "configuration.net.nvidia.com/v1alpha1"
READ_REQUEST = 4096
"""PCIe read request in bytes that lossless RoCE at 200 Gb/s and more wants."""


def _charts(plan: Plan) -> tuple[Chart, ...]:
    """Network Operator and, by the same chart, the maintenance operator, without which no NIC is ever configured.

    Its MaintenanceOperatorConfig is written below, so the chart must not bring one of the same name.
    """
    own = {"maintenance-operator-chart": {"operatorConfig": {"deploy": False}}}
    return operator_chart(plan, maintenanceOperator={"enabled": True}, **own)


def _stages(plan: Plan) -> Iterator[Stage]:
    yield Stage("operator", (_policy(plan), _maintenance()), (READY,))
    yield Stage("templates", tuple(_templates(plan)))


def _policy(plan: Plan) -> Manifest:
    section = {
        "operator": image(plan, "nic-configuration-operator"),
        "configurationDaemon": image(plan, "nic-configuration-operator-daemon"),
    }
    return nic_cluster_policy(plan, nicConfigurationOperator=section)


def _maintenance() -> Manifest:
    """One node at a time: each loses its pods, perhaps for a reboot."""
    spec = {"maxParallelOperations": 1, "maxUnavailable": 1}
    return manifest("maintenance.nvidia.com/v1alpha1", "MaintenanceOperatorConfig", "default", NAMESPACE, spec=spec)


def _templates(plan: Plan) -> Iterator[Manifest]:
    for group in groups(plan):
        name = plan.common.fabric if group.alone else f"{plan.common.fabric}-g{group.index}"
        yield manifest(API, "NicConfigurationTemplate", name, NAMESPACE, spec=_configuration(plan, group))
        if names := _names(plan, group):
            yield manifest(API, "NicInterfaceNameTemplate", name, NAMESPACE, spec=names)


def _configuration(plan: Plan, group: Group) -> dict[str, Any]:
    ethernet = plan.common.link_type == "ethernet"
    template = without_none(
        numVfs=plan.common.vfs,
        linkType="Ethernet" if ethernet else "Infiniband",
        pciPerformanceOptimized={"enabled": True, "maxReadRequest": READ_REQUEST},
        roceOptimized={"enabled": True, "qos": _qos(plan), "roceMode": 2} if ethernet else None,
        gpuDirectOptimized={"enabled": True, "env": "Baremetal"},
    )
    device = (group.nodes[0].nic or "").partition(":")[2]
    selected = without_none(nicType=device, pciAddresses=_addresses(group))
    return {"nodeSelector": group.selector, "nicSelector": selected, "template": template}


def _addresses(group: Group) -> list[str] | None:
    """The ports' PCI addresses, so that NICs of the same kind for storage keep their settings; None where unknown."""
    found = [pci_address(port) for port in group.ports]
    return [address for address in found if address] if all(found) else None


def _qos(plan: Plan) -> dict[str, Any]:
    """Trust, PFC, type of service (the DSCP in its upper six bits) and ECN, as hosts, switches and NCCL have them."""
    qos = plan.common.qos
    pfc = [str(int(qos.pfc and priority == qos.priority)) for priority in range(8)]
    return without_none(
        trust="dscp",
        pfc=",".join(pfc),
        tos=qos.dscp << 2,
        ecn={"enabled": True, "priority": qos.priority} if qos.ecn else None,
        pauseFrames={"enabled": False} if qos.pfc else None,
    )


def _names(plan: Plan, group: Group) -> dict[str, Any] | None:
    """Names by udev rules, where all planned names are one prefix and the rail's index, and all addresses are known."""
    addresses = _addresses(group)
    rails = [port.rail for port in group.ports]
    netdev = _prefix([port.netdev for port in group.ports])
    if addresses is None or netdev is None or rails != list(range(len(plan.common.rails))):
        return None
    rdma = _prefix([rail.rdma for rail in plan.common.rails])
    return without_none(
        nodeSelector=group.selector,
        pfsPerNic=1,
        netDevicePrefix=f"{netdev}%rail_id%",
        rdmaDevicePrefix=f"{rdma}%rail_id%" if rdma is not None else None,
        railPciAddresses=[[address] for address in addresses],
    )


def _prefix(names: list[str]) -> str | None:
    """What stands before the rail's index in the names of rails 0, 1, 2...; None where names are made otherwise."""
    head = names[0].removesuffix("0") if names[0].endswith("0") else None
    return head if head and all(name == f"{head}{rail}" for rail, name in enumerate(names)) else None


def _refusals(plan: Plan) -> Iterator[Problem]:
    without = next((node.name for node in plan.nodes if node.nic is None), None)
    if without is not None:
        message = (
            f"the operator selects NICs by their device id, and the Fabric gives none for node {without}: write nic in "
            "its group, for example 15b3:1021 (lspci -nn)"
        )
        yield Problem("stack-needs-nic", message, ("spec", "nodes"))
    other = next((node for node in plan.nodes if node.nic and not node.nic.lower().startswith("15b3:")), None)
    if other is not None:
        message = f"the operator configures NVIDIA NICs (15b3), node {other.name} has {other.nic}: leave this stack out"
        yield Problem("stack-nic-vendor", message, ("spec", "nodes"))


STACK = Stack(
    name="nic-configuration",
    title="Complement, attaches nothing: NIC Configuration Operator sets link type, VFs, QoS and names of the ports",
    needs=(
        "NVIDIA Network Operator 26.4 with its maintenance operator",
        "in an SR-IOV Network Operator beside it: disablePlugins [mellanox], else both write the firmware's settings",
        "beside a stack of the Network Operator: SKIP=network-operator for install.sh, whose chart is there already",
        "not beside Trackbed's own QoS and names on the hosts: one of the two should write them",
    ),
    cannot=(
        "firmware versions: the Fabric names none, so there is no NicFirmwareSource and no NicFirmwareTemplate",
        "Socket Direct NICs and NICs in a PCI domain other than 0000",
        "the CNP's DSCP: the operator sets its own",
    ),
    charts=_charts,
    stages=_stages,
    refusals=_refusals,
    ports_on_host=False,
)
