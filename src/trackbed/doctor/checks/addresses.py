"""Step addresses: the port is up, has carrier, its address and MTU, and shares them with nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.doctor.checks import addresses_host
from trackbed.doctor.view import get_ip_version
from trackbed.fabric.model.ranges import BITS, Range, text
from trackbed.kernel.netlink.addresses import FAMILY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.fabric.plan.plan import Addressed, PortPlan
    from trackbed.kernel.netlink.links import Link

READS = addresses_host.READS
"""What these checks want to see of a host."""

DADFAILED = 0x08
"""IFA_F_DADFAILED of include/uapi/linux/if_addr.h."""
_CONTAINER_BRIDGES = ("docker", "br-", "cni", "virbr", "podman")
_HOST_SCOPES = 253
"""RT_SCOPE_LINK of include/uapi/linux/rtnetlink.h; wider scopes are below."""


def check(view: NodeView) -> Iterator[Finding]:
    """Judge every port of the host, then what else lies in the rails' ranges."""
    for port in view.iter_ports():
        link = view.find_link(port)
        if link is not None:
            yield from _link(view, port, link)
            yield from _own(view, port)
            yield from _sysctls(view, port)
    yield from _intruders(view)
    yield from _files(view)
    yield from addresses_host.check(view)


def _link(view: NodeView, port: PortPlan, link: Link) -> Iterator[Finding]:
    node = view.node
    yield judge(
        "addr-link-admin-down", node, port, ok=link.up, evidence=f"{link.name} is {'up' if link.up else 'down'}"
    )
    carrier = link.carrier if link.up else None
    yield judge("addr-no-carrier", node, port, ok=carrier, evidence=f"operstate {link.operstate}")
    same = link.mtu == node.common.mtu_bytes
    yield judge("addr-mtu-wrong", node, port, ok=same, evidence=f"mtu {link.mtu}, planned {node.common.mtu_bytes}")


def _own(view: NodeView, port: PortPlan) -> Iterator[Finding]:
    node, here = view.node, view.list_addresses(port)
    for own in port.addressed:
        found = [a for a in here if a.family == FAMILY[own.version] and a.address == own.address]
        shown = ", ".join(f"{text(get_ip_version(a.family), a.address)}/{a.prefix}" for a in here) or "no address"
        yield judge("addr-missing", node, port, ok=bool(found), evidence=shown)
        if found:
            right = any(a.prefix == own.prefix for a in found)
            yield judge("addr-prefix-length-wrong", node, port, ok=right, evidence=f"{shown}, planned {own}")
            yield from _twice(view, port, own)
        if own.version == 6 and found:  # noqa: PLR2004 - the IP version
            failed = any(a.flags & DADFAILED for a in found)
            yield judge(
                "addr-ipv6-dad-failed", node, port, ok=not failed, evidence=f"{own} dadfailed" if failed else ""
            )
    planned = {(FAMILY[own.version], own.address) for own in port.addressed}
    extra = [a for a in here if (a.family, a.address) not in planned]
    shown = ", ".join(f"{text(get_ip_version(a.family), a.address)}/{a.prefix}" for a in extra)
    yield judge("addr-unplanned-extra", node, port, ok=not extra, evidence=shown)


def _twice(view: NodeView, port: PortPlan, own: Addressed) -> Iterator[Finding]:
    """The address again: on another interface of this node, or on another node."""
    family, node, link = FAMILY[own.version], view.node, view.find_link(port)
    again = [a for a in view.state.addresses if a.family == family and a.address == own.address]
    others = [view.get_link_name(a.index) for a in again if link is not None and a.index != link.index]
    yield judge(
        "addr-same-on-two-local-ports", node, port, ok=not others, evidence=f"{own} also on {others}" if others else ""
    )
    if view.peers is None:
        return
    thieves = [
        f"{peer.node.name} {peer.get_link_name(a.index)}"
        for peer in view.peers
        for a in peer.state.addresses
        if a.family == family and a.address == own.address
    ]
    yield judge(
        "addr-duplicate-on-rail", node, port, ok=not thieves, evidence=f"{own} also at {thieves}" if thieves else ""
    )


def _sysctls(view: NodeView, port: PortPlan) -> Iterator[Finding]:
    ignore = _number(view, f"net/ipv4/conf/{port.netdev}/arp_ignore", "net/ipv4/conf/all/arp_ignore")
    announce = _number(view, f"net/ipv4/conf/{port.netdev}/arp_announce", "net/ipv4/conf/all/arp_announce")
    known = None if ignore is None or announce is None else ignore >= 1 and announce == 2  # noqa: PLR2004 - the setting
    yield judge("addr-arp-flux", view.node, port, ok=known, evidence=f"arp_ignore {ignore}, arp_announce {announce}")
    accepts = view.sysctls.get(f"net/ipv6/conf/{port.netdev}/accept_ra")
    link = view.find_link(port)
    learned = [
        r for r in view.state.routes if link and r.oif == link.index and r.prefix == 0 and r.protocol == RTPROT_RA
    ]
    if accepts is not None or learned:
        evidence = f"accept_ra {accepts}" + (", default route with protocol ra" if learned else "")
        ok = accepts == "0" and not learned
        yield judge("addr-router-advertisement-default", view.node, port, ok=ok, evidence=evidence)


RTPROT_RA = 9
"""RTPROT_RA of include/uapi/linux/rtnetlink.h."""


def _number(view: NodeView, *keys: str) -> int | None:
    """The effective value: the largest of `keys` (ip-sysctl of the kernel documentation)."""
    values = [view.sysctls.get(key) for key in keys]
    return None if values[0] is None else max(int(value) for value in values if value is not None)


def _intruders(view: NodeView) -> Iterator[Finding]:
    """Container bridges and pod routes in a rail's range."""
    rails = {port.netdev for port in view.node.ports}
    ranges, bridges, pods = view.list_rail_ranges(), [], []
    for address in view.state.addresses:
        name = view.get_link_name(address.index)
        subnet = _subnet(get_ip_version(address.family), address.address, address.prefix)
        if name.startswith(_CONTAINER_BRIDGES) and any(subnet.overlaps(cut) for cut in ranges):
            bridges.append(f"{name} {subnet}")
    for route in view.state.routes:
        name = view.get_link_name(route.oif)
        to = _subnet(get_ip_version(route.family), route.dst, route.prefix)
        foreign = name.startswith(("cali", "lxc", "veth", "cilium")) and name not in rails
        if foreign and route.prefix and any(to.overlaps(cut) for cut in ranges):
            pods.append(f"{to} dev {name}")
    yield judge("addr-docker0-overlap", view.node, None, ok=not bridges, evidence=", ".join(bridges))
    yield judge("addr-pod-cidr-overlap", view.node, None, ok=not pods, evidence=", ".join(pods))


def _subnet(version: int, address: int, prefix: int) -> Range:
    bits = BITS[version] - prefix
    return Range(version, address >> bits << bits, prefix)


def _files(view: NodeView) -> Iterator[Finding]:
    missing = view.unpersisted_files
    ok = None if missing is None else not missing
    yield judge("addr-not-persistent", view.node, None, ok=ok, evidence=", ".join(missing or ()))
