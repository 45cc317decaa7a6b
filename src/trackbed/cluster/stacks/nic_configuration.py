"""`nic-configuration`: firmware settings, QoS and names of ports by NVIDIA's NIC Configuration Operator.

It complements other stacks and attaches nothing to pods. Without it nothing ensures that NICs have the right link type,
VFs, and trust in DSCP. The operator drains and reboots nodes when the firmware requires it, and the maintenance
operator allows this for one node at a time. A device that matches two templates is not configured at all, so templates
select nodes by the fabric's labels, and ports by PCI address if the Fabric has them. Follows NVIDIA's documentation of
the NIC Configuration Operator and the CEL rules of its CRDs.
"""

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.stacks.groups import HardwareGroup, group_nodes
from trackbed.cluster.stacks.network_operator.policy import (
    NAMESPACE,
    POLICY_READY,
    build_image_fields,
    build_nic_cluster_policy,
    build_operator_chart,
)
from trackbed.cluster.stacks.objects import Manifest, build_manifest, drop_none
from trackbed.cluster.stacks.pci import find_pci_address
from trackbed.cluster.stacks.stack import Chart, Stack, Stage
from trackbed.cluster.stacks.traits import Share, Traits, share_always
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan

API = "configuration.net.nvidia.com/v1alpha1"
PCIE_READ_REQUEST_BYTES = 4096
"""PCIe MaxReadReq in bytes, as recommended for lossless RoCE at 200 Gb/s and more."""


def _build_charts(plan: Plan) -> tuple[Chart, ...]:
    """Return the Network Operator's chart with the maintenance operator, without which no NIC is configured.

    The chart must not create a MaintenanceOperatorConfig, as this stack has its own.
    """
    values = {"maintenance-operator-chart": {"operatorConfig": {"deploy": False}}}
    return build_operator_chart(plan, maintenanceOperator={"enabled": True}, **values)


def _build_stages(plan: Plan) -> Iterator[Stage]:
    yield Stage("operator", (_build_operator_policy(plan), _build_maintenance_config()), (POLICY_READY,))
    yield Stage("templates", tuple(_build_template_objects(plan)))


def _build_operator_policy(plan: Plan) -> Manifest:
    section = {
        "operator": build_image_fields(plan, "nic-configuration-operator"),
        "configurationDaemon": build_image_fields(plan, "nic-configuration-operator-daemon"),
    }
    return build_nic_cluster_policy(plan, nicConfigurationOperator=section)


def _build_maintenance_config() -> Manifest:
    """Return the MaintenanceOperatorConfig. It allows maintenance of one node at a time, as nodes may be rebooted."""
    spec = {"maxParallelOperations": 1, "maxUnavailable": 1}
    return build_manifest(
        "maintenance.nvidia.com/v1alpha1", "MaintenanceOperatorConfig", "default", NAMESPACE, spec=spec
    )


def _build_template_objects(plan: Plan) -> Iterator[Manifest]:
    for group in group_nodes(plan):
        name = plan.common.fabric if group.is_only_group else f"{plan.common.fabric}-g{group.index}"
        yield build_manifest(
            API, "NicConfigurationTemplate", name, NAMESPACE, spec=_build_configuration_spec(plan, group)
        )
        if names := _build_interface_names(plan, group):
            yield build_manifest(API, "NicInterfaceNameTemplate", name, NAMESPACE, spec=names)


def _build_configuration_spec(plan: Plan, group: HardwareGroup) -> dict[str, Any]:
    ethernet = plan.common.link_type == "ethernet"
    template = drop_none(
        numVfs=plan.common.vfs,
        linkType="Ethernet" if ethernet else "Infiniband",
        pciPerformanceOptimized={"enabled": True, "maxReadRequest": PCIE_READ_REQUEST_BYTES},
        roceOptimized={"enabled": True, "qos": _build_qos(plan)} if ethernet else None,
        gpuDirectOptimized={"enabled": True, "env": "Baremetal"},
    )
    device = (group.nodes[0].nic or "").partition(":")[2]
    nic_selector = drop_none(nicType=device, pciAddresses=_list_pci_addresses(group))
    return {"nodeSelector": group.node_labels, "nicSelector": nic_selector, "template": template}


def _list_pci_addresses(group: HardwareGroup) -> list[str] | None:
    """Return the PCI addresses of a group's ports, to exclude other NICs of the same type; None if one is unknown."""
    addresses = [find_pci_address(port) for port in group.ports]
    return [address for address in addresses if address] if all(addresses) else None


def _build_qos(plan: Plan) -> dict[str, Any]:
    """Return the QoS settings of NICs: trust, PFC, and ToS (the DSCP in the upper six bits).

    Fields for ECN, pause frames and the RoCE version came after Network Operator 26.4, whose CRD refuses them.
    """
    qos = plan.common.qos
    pfc = [str(int(qos.pfc and priority == qos.priority)) for priority in range(8)]
    return {"trust": "dscp", "pfc": ",".join(pfc), "tos": qos.dscp << 2}


def _build_interface_names(plan: Plan, group: HardwareGroup) -> dict[str, Any] | None:
    """Return the spec of a NicInterfaceNameTemplate; None if the operator cannot build the planned names.

    It builds names from a prefix and the index of the rail, and needs the PCI address of each port.
    """
    addresses = _list_pci_addresses(group)
    rails = [port.rail for port in group.ports]
    netdev = _find_common_prefix([port.netdev for port in group.ports])
    if addresses is None or netdev is None or rails != list(range(len(plan.common.rails))):
        return None
    rdma = _find_common_prefix([rail.rdma for rail in plan.common.rails])
    return drop_none(
        nodeSelector=group.node_labels,
        pfsPerNic=1,
        netDevicePrefix=f"{netdev}%rail_id%",
        rdmaDevicePrefix=f"{rdma}%rail_id%" if rdma is not None else None,
        railPciAddresses=[[address] for address in addresses],
    )


def _find_common_prefix(names: list[str]) -> str | None:
    """Return the common prefix of names such as rail0, rail1, rail2; None if they are not a prefix and an index."""
    prefix = names[0].removesuffix("0") if names[0].endswith("0") else None
    return prefix if prefix and all(name == f"{prefix}{rail}" for rail, name in enumerate(names)) else None


def _find_refusals(plan: Plan) -> Iterator[Problem]:
    unidentified = next((node.name for node in plan.nodes if node.nic is None), None)
    if unidentified is not None:
        yield Problem(
            "stack-needs-nic",
            f"the operator selects NICs by their device id, and the Fabric gives none for node {unidentified}: "
            "write nic in its group, for example 15b3:1021 (lspci -nn)",
            ("spec", "nodes"),
        )
    foreign = next((node for node in plan.nodes if node.nic and not node.nic.lower().startswith("15b3:")), None)
    if foreign is not None:
        yield Problem(
            "stack-nic-vendor",
            f"the operator configures NVIDIA NICs (15b3), node {foreign.name} has {foreign.nic}: leave this stack out",
            ("spec", "nodes"),
        )


STACK = Stack(
    name="nic-configuration",
    title="Complement, attaches nothing: NIC Configuration Operator sets link type, VFs, QoS and names of the ports",
    traits=Traits(
        share_always(Share.NOTHING), "released", "NVIDIA's product", only_for="NICs that another stack attaches"
    ),
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
        "ECN and pause frames: Network Operator 26.4 has no fields for them, so the hosts' settings stay",
    ),
    charts=_build_charts,
    stages=_build_stages,
    refusals=_find_refusals,
    ports_on_host=False,
    deploys_driver=True,
)
