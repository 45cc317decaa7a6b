"""`dranet`: the port itself goes into the pod as a DRA device, with the addresses, routes and rules it has on the host.

DRANET (dra.net) needs no CNI plugin, no Multus and no address pool: what the host set on a port moves with it. So the
hosts must be set up by Trackbed, and the port must be free of pods' other uses. ARP settings do not survive the move,
the kernel resets them in the new namespace: the claim asks for the same values that hosts have (host/steps/routing.py);
without them a pod with eight ports answers for one port's address on another. Follows dranet.dev and its CRD-less
NetworkConfig of 1.4.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.dra.claims import claims, device_class, opaque, templates, too_many_rails
from trackbed.cluster.stacks.groups import groups, selector
from trackbed.cluster.stacks.pci import pci_address
from trackbed.cluster.stacks.rails import port_hcas
from trackbed.cluster.stacks.stack import Chart, Stack, Stage
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan, PortPlan

DRIVER = "dra.net"
NAMESPACE = "kube-system"
"""Where upstream installs it: privileged, and started before pods that wait for it."""
_ATTRIBUTES = f'device.attributes["{DRIVER}"]'


def _charts(plan: Plan) -> tuple[Chart, ...]:
    return (Chart("dranet", NAMESPACE, {"nodeSelector": selector(plan)}),)


def _stages(plan: Plan) -> Iterator[Stage]:
    rdma = f'device.driver == "{DRIVER}" && has({_ATTRIBUTES}.rdma) && {_ATTRIBUTES}.rdma == true'
    yield Stage("device class", (device_class(plan, rdma),))
    selectors = [_selector(plan, rail.rail) for rail in plan.common.rails]
    yield Stage("claim templates", templates(plan, selectors, _configs(plan)))


def _configs(plan: Plan) -> list[dict[str, object]]:
    """What the kernel forgets when a port moves. InfiniBand devices without netdev take no settings at all."""
    if plan.common.link_type != "ethernet" or all(rail.v4 is None for rail in plan.common.rails):
        return []
    return [opaque(DRIVER, {"interface": {"arpIgnore": 1, "arpAnnounce": 2}})]


def _selector(plan: Plan, rail: int) -> str:
    """The port of a rail: by the name it has on the host, on InfiniBand (where it may have none) by PCI address."""
    key, found = _identities(plan, rail)
    attribute = f"{_ATTRIBUTES}.{key}"
    wanted = "[" + ", ".join(f'"{each}"' for each in found) + "]"
    test = f"{attribute} in {wanted}" if len(found) > 1 else f'{attribute} == "{found[0]}"'
    return f"has({attribute}) && {test}"


def _identities(plan: Plan, rail: int) -> tuple[str, list[str]]:
    """The attribute that tells a rail's port, and its values in all groups of nodes."""
    ports = [port for group in groups(plan) for port in group.ports if port.rail == rail]
    by_pci = plan.common.link_type != "ethernet" and all(map(pci_address, _all_ports(plan)))
    found = [(pci_address(port) or "") if by_pci else port.netdev for port in ports]
    return ("pciAddress" if by_pci else "ifName"), sorted(set(found))


def _all_ports(plan: Plan) -> list[PortPlan]:
    return [port for group in groups(plan) for port in group.ports]


def _access(plan: Plan) -> Access:
    return Access(claims=claims(plan), hcas=port_hcas(plan))


def _refusals(plan: Plan) -> Iterator[Problem]:
    if plan.common.pod_mode != "move":
        message = (
            f"DRANET moves the ports themselves into pods, pods.mode {plan.common.pod_mode} leaves them on the host: "
            "write pods.mode move, or choose dra-sriov for VFs"
        )
        yield Problem("stack-pod-mode", message, ("spec", "pods", "mode"))
    yield from too_many_rails(plan)
    yield from _ambiguous(plan)


def _ambiguous(plan: Plan) -> Iterator[Problem]:
    """A name or address that is one rail on some nodes and another rail on others: a claim holds for all nodes."""
    seen: dict[str, int] = {}
    for rail in plan.common.rails:
        for identity in _identities(plan, rail.rail)[1]:
            other = seen.setdefault(identity, rail.rail)
            if other != rail.rail:
                message = (
                    f"{identity} is rail {other} on some nodes and rail {rail.rail} on others, and one claim holds for "
                    "all nodes: let names.netdev name the ports (give PCI or MAC addresses in ports, not names)"
                )
                yield Problem("stack-ambiguous-port", message, ("spec", "nodes"))
                return


STACK = Stack(
    name="dranet",
    title="DRANET moves the ports themselves into pods, with the addresses, routes and rules the host gave them",
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
    charts=_charts,
    stages=_stages,
    access=_access,
    refusals=_refusals,
    ports_on_host=False,
)
