"""`dranet`: the port itself moves into the pod as a DRA device, with the addresses, routes and rules set on the host.

DRANET (dra.net) needs no CNI plugin, no Multus and no address pool, as the host's settings move with the port. The
hosts must be set up by Trackbed, and the port must not be used by other pods. The kernel resets ARP settings in the new
namespace, so the claim sets them to the hosts' values (host/steps/routing.py). Otherwise a pod with eight ports would
answer ARP requests for a port's address on another port. Follows dranet.dev and NetworkConfig of DRANET 1.4, which
needs no CRD.
"""

from collections.abc import Iterator

from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.dra.claims import (
    build_claim_templates,
    build_device_class,
    build_driver_config,
    build_pod_claims,
    check_rail_count,
)
from trackbed.cluster.stacks.groups import get_node_labels, group_nodes
from trackbed.cluster.stacks.pci import find_pci_address
from trackbed.cluster.stacks.rails import list_port_hcas
from trackbed.cluster.stacks.stack import Chart, Stack, Stage
from trackbed.cluster.stacks.traits import Share, Traits, count_claim_writes, share_always
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan, RailPlan

DRIVER = "dra.net"
NAMESPACE = "kube-system"
"""Namespace of DRANET's upstream manifests, in which pods may be privileged and start before ordinary pods."""
_RAN = (
    "2026-11-29, on emulated servers by its own chart and program: dranet at f258477, scheduler and kubelet of "
    "Kubernetes 1.36.3; RDMA (mode shared) on 8 of 8 rails between pods; after them all ports, RDMA devices and "
    "addresses were back"
)
_ATTRIBUTES = f'device.attributes["{DRIVER}"]'


def _build_charts(plan: Plan) -> tuple[Chart, ...]:
    return (Chart("dranet", NAMESPACE, {"nodeSelector": get_node_labels(plan)}),)


def _build_stages(plan: Plan) -> Iterator[Stage]:
    rdma = f'device.driver == "{DRIVER}" && has({_ATTRIBUTES}.rdma) && {_ATTRIBUTES}.rdma == true'
    yield Stage("device class", (build_device_class(plan, rdma),))
    selectors = [_build_port_selector(plan, rail.rail) for rail in plan.common.rails]
    yield Stage("claim templates", build_claim_templates(plan, selectors, _build_interface_configs(plan)))


def _build_interface_configs(plan: Plan) -> list[dict[str, object]]:
    """Return the settings of interfaces in pods: ARP for all, and a name for each rail whose port has another one."""
    arp, renamed = _build_arp_settings(plan), _list_renamed_rails(plan)
    if not renamed:
        return [build_driver_config(DRIVER, {"interface": arp})] if arp else []
    return [
        build_driver_config(DRIVER, {"interface": {"name": rail.pod_netdev, **arp}}, f"rail{rail.rail}")
        for rail in (plan.common.rails if arp else renamed)
    ]


def _build_arp_settings(plan: Plan) -> dict[str, int]:
    """Return the ARP settings, which the kernel resets when a port moves; empty on InfiniBand and without IPv4."""
    if plan.common.link_type != "ethernet" or all(rail.v4 is None for rail in plan.common.rails):
        return {}
    return {"arpIgnore": 1, "arpAnnounce": 2}


def _list_renamed_rails(plan: Plan) -> list[RailPlan]:
    """Return the rails whose interface in pods has another name than its port on some node."""
    names = {rail.rail: rail.pod_netdev for rail in plan.common.rails}
    renamed = {
        port.rail for node in plan.nodes for port in node.ports if names.get(port.rail) not in {None, port.netdev}
    }
    return [rail for rail in plan.common.rails if rail.rail in renamed]


def _build_port_selector(plan: Plan, rail_number: int) -> str:
    """Return the CEL expression that selects the port of a rail by name, or on InfiniBand by PCI address.

    It selects nothing if no node has a port on the rail.
    """
    key, identities = _find_port_identities(plan, rail_number)
    attribute = f"{_ATTRIBUTES}.{key}"
    listing = "[" + ", ".join(f'"{identity}"' for identity in identities) + "]"
    test = f"{attribute} in {listing}" if len(identities) != 1 else f'{attribute} == "{identities[0]}"'
    return f"has({attribute}) && {test}"


def _find_port_identities(plan: Plan, rail_number: int) -> tuple[str, list[str]]:
    """Return the device attribute that identifies the port of a rail, and its values in all groups of nodes, sorted."""
    all_ports = [port for group in group_nodes(plan) for port in group.ports]
    ports = [port for port in all_ports if port.rail == rail_number]
    by_pci = plan.common.link_type != "ethernet" and all(map(find_pci_address, all_ports))
    identities = [(find_pci_address(port) or "") if by_pci else port.netdev for port in ports]
    return ("pciAddress" if by_pci else "ifName"), sorted(set(identities))


def _find_refusals(plan: Plan) -> Iterator[Problem]:
    if plan.common.pod_mode != "move":
        yield Problem(
            "stack-pod-mode",
            f"DRANET moves the ports themselves into pods, pods.mode {plan.common.pod_mode} leaves them on the host: "
            "write pods.mode move, or choose dra-sriov for VFs",
            ("spec", "pods", "mode"),
        )
    yield from check_rail_count(plan)
    yield from _check_ambiguous_ports(plan)


def _check_ambiguous_ports(plan: Plan) -> Iterator[Problem]:
    """Yield a problem if a port name or PCI address belongs to different rails on different nodes.

    A claim cannot select devices by node.
    """
    rails_by_identity: dict[str, int] = {}
    for rail in plan.common.rails:
        for identity in _find_port_identities(plan, rail.rail)[1]:
            other = rails_by_identity.setdefault(identity, rail.rail)
            if other != rail.rail:
                yield Problem(
                    "stack-ambiguous-port",
                    f"{identity} is rail {other} on some nodes and rail {rail.rail} on others, and one claim holds for "
                    "all nodes: let names.netdev name the ports (give PCI or MAC addresses in ports, not names)",
                    ("spec", "nodes"),
                )
                return


STACK = Stack(
    name="dranet",
    title="DRANET moves the ports themselves into pods, with the addresses, routes and rules the host gave them",
    traits=Traits(
        share_always(Share.PORT),
        "released",
        "project of Kubernetes SIG Network, version 1",
        count_claim_writes,
        kubernetes="1.34",
        ran=_RAN,
    ),
    needs=(
        "Kubernetes 1.34",
        "containerd 2.0 or CRI-O with NRI",
        "hosts set up by Trackbed: what is set on a port moves with it",
        "for the template with GPUs: NVIDIA's DRA driver for GPUs",
    ),
    cannot=(
        "more than one pod a node on a rail",
        "pods in the host's network",
        "the template with GPUs on GB300 and Vera Rubin: there the NIC's PCIe root is not its GPU's (Data Direct)",
    ),
    charts=_build_charts,
    stages=_build_stages,
    access=lambda plan: Access(claims=build_pod_claims(plan), hcas=list_port_hcas(plan)),
    refusals=_find_refusals,
    ports_on_host=False,
)
