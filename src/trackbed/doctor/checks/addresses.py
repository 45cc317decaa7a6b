"""Step addresses: each port is up, with carrier, its planned address and MTU, and no address conflict."""

from collections.abc import Iterable, Iterator

from trackbed.doctor.catalogue import judge
from trackbed.doctor.checks import addresses_host
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView, get_ip_version
from trackbed.fabric.model.ranges import BITS, Range, format_address
from trackbed.fabric.plan.plan import AddressPlan, PortPlan
from trackbed.kernel.netlink.addresses import FAMILY, Address
from trackbed.kernel.netlink.links import Link

READS = addresses_host.READS
"""What these checks read of a host."""

DADFAILED = 0x08
"""IFA_F_DADFAILED of include/uapi/linux/if_addr.h."""
RTPROT_RA = 9
"""RTPROT_RA of include/uapi/linux/rtnetlink.h."""
_CONTAINER_BRIDGES = ("docker", "br-", "cni", "virbr", "podman")
_POD_INTERFACES = ("cali", "lxc", "veth", "cilium")


def check(view: NodeView) -> Iterator[Finding]:
    """Check every port of the host, then foreign addresses and routes in the rails' ranges."""
    for port in view.iter_ports():
        link = view.find_link(port)
        if link is not None:
            yield from check_link(view, port, link)
            yield from check_addresses(view, port)
            yield from check_sysctls(view, port)
    yield from check_overlaps(view)
    yield from check_persistence(view)
    yield from addresses_host.check(view)


def check_link(view: NodeView, port: PortPlan, link: Link) -> Iterator[Finding]:
    """Check the port's administrative state, carrier and MTU."""
    node = view.node
    evidence = f"{link.name} is {'up' if link.up else 'down'}"
    yield judge("addr-link-admin-down", node, port, ok=link.up, evidence=evidence)
    carrier = link.carrier if link.up else None
    yield judge("addr-no-carrier", node, port, ok=carrier, evidence=f"operstate {link.operstate}")
    ok = link.mtu == node.common.mtu_bytes
    yield judge("addr-mtu-wrong", node, port, ok=ok, evidence=f"mtu {link.mtu}, planned {node.common.mtu_bytes}")


def check_addresses(view: NodeView, port: PortPlan) -> Iterator[Finding]:
    """Check that the port has its planned addresses and no others."""
    node, present = view.node, view.list_addresses(port)
    listing = _format_addresses(present)
    for planned in port.addresses:
        family = FAMILY[planned.version]
        matches = [address for address in present if (address.family, address.address) == (family, planned.address)]
        yield judge("addr-missing", node, port, ok=bool(matches), evidence=listing or "no address")
        if matches:
            ok = any(address.prefix == planned.prefix for address in matches)
            yield judge("addr-prefix-length-wrong", node, port, ok=ok, evidence=f"{listing}, planned {planned}")
            yield from _check_duplicates(view, port, planned)
        if planned.version == 6 and matches:  # noqa: PLR2004 - the IP version
            failed = any(address.flags & DADFAILED for address in matches)
            evidence = f"{planned} dadfailed" if failed else ""
            yield judge("addr-ipv6-dad-failed", node, port, ok=not failed, evidence=evidence)
    expected = {(FAMILY[planned.version], planned.address) for planned in port.addresses}
    extra = [address for address in present if (address.family, address.address) not in expected]
    yield judge("addr-unplanned-extra", node, port, ok=not extra, evidence=_format_addresses(extra))


def _format_addresses(addresses: Iterable[Address]) -> str:
    return ", ".join(f"{format_address(get_ip_version(a.family), a.address)}/{a.prefix}" for a in addresses)


def _check_duplicates(view: NodeView, port: PortPlan, planned: AddressPlan) -> Iterator[Finding]:
    """Check that no other interface of this node and no other node has the address."""
    family, node, link = FAMILY[planned.version], view.node, view.find_link(port)
    local = [address for address in view.state.addresses if _is_same_address(address, family, planned)]
    netdevs = [
        view.get_link_name(address.index) for address in local if link is not None and address.index != link.index
    ]
    evidence = f"{planned} also on {netdevs}" if netdevs else ""
    yield judge("addr-same-on-two-local-ports", node, port, ok=not netdevs, evidence=evidence)
    if view.peers is None:
        return
    holders = [
        f"{peer.node.name} {peer.get_link_name(address.index)}"
        for peer in view.peers
        for address in peer.state.addresses
        if _is_same_address(address, family, planned)
    ]
    evidence = f"{planned} also at {holders}" if holders else ""
    yield judge("addr-duplicate-on-rail", node, port, ok=not holders, evidence=evidence)


def _is_same_address(address: Address, family: int, planned: AddressPlan) -> bool:
    return address.family == family and address.address == planned.address


def check_sysctls(view: NodeView, port: PortPlan) -> Iterator[Finding]:
    """Check the port's ARP sysctls, and that it takes no default route from router advertisements."""
    ignore = _get_effective_sysctl(view, f"net/ipv4/conf/{port.netdev}/arp_ignore", "net/ipv4/conf/all/arp_ignore")
    announce = _get_effective_sysctl(
        view, f"net/ipv4/conf/{port.netdev}/arp_announce", "net/ipv4/conf/all/arp_announce"
    )
    ok = None if ignore is None or announce is None else ignore >= 1 and announce == 2  # noqa: PLR2004 - the setting
    yield judge("addr-arp-flux", view.node, port, ok=ok, evidence=f"arp_ignore {ignore}, arp_announce {announce}")
    accepts = view.sysctls.get(f"net/ipv6/conf/{port.netdev}/accept_ra")
    link = view.find_link(port)
    learned = [
        route
        for route in view.state.routes
        if link and route.oif == link.index and route.prefix == 0 and route.protocol == RTPROT_RA
    ]
    if accepts is not None or learned:
        evidence = f"accept_ra {accepts}" + (", default route with protocol ra" if learned else "")
        ok = accepts == "0" and not learned
        yield judge("addr-router-advertisement-default", view.node, port, ok=ok, evidence=evidence)


def _get_effective_sysctl(view: NodeView, *keys: str) -> int | None:
    """Return the effective value of a sysctl: the largest of `keys` (ip-sysctl of the kernel documentation)."""
    values = [view.sysctls.get(key) for key in keys]
    return None if values[0] is None else max(int(value) for value in values if value is not None)


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
    yield judge("addr-docker0-overlap", view.node, None, ok=not bridges, evidence=", ".join(bridges))
    yield judge("addr-pod-cidr-overlap", view.node, None, ok=not pods, evidence=", ".join(pods))


def _to_subnet(version: int, address: int, prefix: int) -> Range:
    bits = BITS[version] - prefix
    return Range(version, address >> bits << bits, prefix)


def check_persistence(view: NodeView) -> Iterator[Finding]:
    """Check that the network configuration is also in files for the next boot."""
    missing = view.unpersisted_files
    ok = None if missing is None else not missing
    yield judge("addr-not-persistent", view.node, None, ok=ok, evidence=", ".join(missing or ()))
