"""Step addresses: ports are up, have carrier and their planned addresses and MTU, and no addresses conflict."""

from collections.abc import Iterable, Iterator

from trackbed.doctor.catalogue import (
    build_finding,
    format_value,
    iter_unknown_findings,
    restrict_to_address,
)
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import BOOT_FILES, NodeView, get_ip_version
from trackbed.fabric.model.ranges import BITS, V6, Range, format_address
from trackbed.fabric.plan.plan import AddressPlan, PortPlan
from trackbed.kernel.netlink.addresses import FAMILY, Address
from trackbed.kernel.netlink.links import Link

DADFAILED = 0x08
"""IFA_F_DADFAILED of include/uapi/linux/if_addr.h."""
RTPROT_RA = 9
"""RTPROT_RA of include/uapi/linux/rtnetlink.h."""
_FAULTS_OF_LINKS = (
    "addr-link-admin-down",
    "addr-no-carrier",
    "addr-missing",
    "addr-mtu-wrong",
    "addr-unplanned-extra",
)
"""Faults for which each port is checked that has its interface."""
_CONTAINER_BRIDGES = ("docker", "br-", "cni", "virbr", "podman")
_POD_INTERFACES = ("cali", "lxc", "veth", "cilium")


def check(view: NodeView) -> Iterator[Finding]:
    """Check every port of the host, then the host as a whole; what needs only the interfaces comes first."""
    links = [(port, link) for port in view.iter_ports() if (link := view.find_link(port))]
    for port in view.iter_ports():
        if view.find_link(port) is None:
            yield from iter_unknown_findings(_FAULTS_OF_LINKS, view.node, port, f"no interface is called {port.netdev}")
    for port, link in links:
        yield from check_link(view, port, link)
    for port in view.iter_ports():
        yield check_arp(view, port)
    yield from check_persistence(view)
    for port, link in links:
        yield from check_addresses(view, port, link)
    for port in view.iter_ports():
        yield check_router_advertisements(view, port)
    yield from check_overlaps(view)


def check_link(view: NodeView, port: PortPlan, link: Link) -> Iterator[Finding]:
    """Check the port's administrative state, carrier and MTU."""
    node = view.node
    evidence = f"{link.name} is {'up' if link.is_up else 'down'}"
    yield build_finding("addr-link-admin-down", node, port, ok=link.is_up, evidence=evidence)
    carrier = link.carrier if link.is_up else None
    yield build_finding("addr-no-carrier", node, port, ok=carrier, evidence=f"operstate {link.operstate}")
    ok = link.mtu == node.common.mtu_bytes
    yield build_finding(
        "addr-mtu-wrong", node, port, ok=ok, evidence=f"mtu {link.mtu}, planned {node.common.mtu_bytes}"
    )


def check_addresses(view: NodeView, port: PortPlan, link: Link) -> Iterator[Finding]:
    """Check that the port has its planned addresses and no others."""
    node, present = view.node, view.list_addresses(port)
    listing = _format_addresses(present)
    for address_plan in port.addresses:
        matches = [address for address in present if _is_same_address(address, address_plan)]
        addressed = restrict_to_address(port, address_plan)
        yield build_finding("addr-missing", node, addressed, ok=bool(matches), evidence=listing or "no address")
        if not matches:
            continue
        ok = any(address.prefix == address_plan.prefix for address in matches)
        yield build_finding(
            "addr-prefix-length-wrong", node, addressed, ok=ok, evidence=f"{listing}, planned {address_plan}"
        )
        yield from _check_duplicates(view, addressed, link, address_plan)
        if address_plan.version == V6:
            failed = any(address.flags & DADFAILED for address in matches)
            evidence = f"{address_plan} dadfailed" if failed else ""
            yield build_finding("addr-ipv6-dad-failed", node, port, ok=not failed, evidence=evidence)
    extra = [address for address in present if not any(_is_same_address(address, plan) for plan in port.addresses)]
    yield build_finding("addr-unplanned-extra", node, port, ok=not extra, evidence=_format_addresses(extra))


def _format_addresses(addresses: Iterable[Address]) -> str:
    return ", ".join(f"{format_address(get_ip_version(a.family), a.address)}/{a.prefix}" for a in addresses)


def _check_duplicates(view: NodeView, port: PortPlan, link: Link, address_plan: AddressPlan) -> Iterator[Finding]:
    """Check that no other interface of this node has the address."""
    netdevs = [
        view.get_link_name(address.index)
        for address in view.state.addresses
        if _is_same_address(address, address_plan) and address.index != link.index
    ]
    evidence = f"{address_plan} also on {', '.join(netdevs)}" if netdevs else ""
    yield build_finding("addr-same-on-two-local-ports", view.node, port, ok=not netdevs, evidence=evidence)


def _is_same_address(address: Address, address_plan: AddressPlan) -> bool:
    return (address.family, address.address) == (FAMILY[address_plan.version], address_plan.address)


def check_arp(view: NodeView, port: PortPlan) -> Finding:
    """Check the port's ARP sysctls."""
    ignore, announce = (view.get_effective_sysctl(port, key) for key in ("arp_ignore", "arp_announce"))
    ok = None if ignore is None or announce is None else ignore >= 1 and announce == 2  # noqa: PLR2004 - the setting
    return build_finding(
        "addr-arp-flux",
        view.node,
        port,
        ok=ok,
        evidence=f"arp_ignore {format_value(ignore)}, arp_announce {format_value(announce)}",
    )


def check_router_advertisements(view: NodeView, port: PortPlan) -> Finding:
    """Check that the port accepts no default route from router advertisements."""
    accepts = view.sysctls.get(f"net/ipv6/conf/{port.netdev}/accept_ra")
    learned = [route for route in view.list_routes(port) if route.prefix == 0 and route.protocol == RTPROT_RA]
    evidence = f"accept_ra {format_value(accepts)}" + (", default route with protocol ra" if learned else "")
    ok = False if learned else None if accepts is None else accepts == "0"
    return build_finding("addr-router-advertisement-default", view.node, port, ok=ok, evidence=evidence)


def check_overlaps(view: NodeView) -> Iterator[Finding]:
    """Check that no container bridge and no pod route lies in a rail's range."""
    rails = {port.netdev for port in view.node.ports}
    ranges, bridges, pods = view.list_rail_ranges(), [], []
    for address in view.state.addresses:
        name = view.get_link_name(address.index)
        subnet = _to_subnet(get_ip_version(address.family), address.address, address.prefix)
        if name.startswith(_CONTAINER_BRIDGES) and any(subnet.overlaps(rail_range) for rail_range in ranges):
            bridges.append(f"{name} {subnet}")
    for route in view.state.routes:
        name = view.get_link_name(route.oif)
        target = _to_subnet(get_ip_version(route.family), route.dst, route.prefix)
        is_foreign = name.startswith(_POD_INTERFACES) and name not in rails
        if is_foreign and route.prefix and any(target.overlaps(rail_range) for rail_range in ranges):
            pods.append(f"{target} dev {name}")
    for fault_id, overlaps in (("addr-docker0-overlap", bridges), ("addr-pod-cidr-overlap", pods)):
        ok = not overlaps if view.state.links else None
        evidence = ", ".join(overlaps) if view.state.links else "no interface was read"
        yield build_finding(fault_id, view.node, None, ok=ok, evidence=evidence)


def _to_subnet(ip_version: int, address: int, prefix: int) -> Range:
    bits = BITS[ip_version] - prefix
    return Range(ip_version, address >> bits << bits, prefix)


def check_persistence(view: NodeView) -> Iterator[Finding]:
    """Check that the network configuration is also in the files that the next boot reads."""
    missing = view.unpersisted_files
    if missing is None:
        reason = view.unread.get(BOOT_FILES, "the files of the next boot were not compared")
        yield build_finding("addr-not-persistent", view.node, None, ok=None, evidence=reason)
        return
    yield build_finding("addr-not-persistent", view.node, None, ok=not missing, evidence=", ".join(missing))
