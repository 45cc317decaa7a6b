"""Builds a topology: namespaces, cables, and the configuration of switches, in a few netlink batches each.

`configure` may be called again at any time: it brings a switch back to what the topology says.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from trackbed.kernel.netlink import netns
from trackbed.kernel.netlink.addresses import (
    FAMILY,
    IFA_F_NODAD,
    Address,
    delete_address,
    list_addresses,
    replace_address,
)
from trackbed.kernel.netlink.links import VethEnd, create_bridge, create_veth, list_links, set_link
from trackbed.kernel.netlink.routes import RTN_UNICAST, RTN_UNREACHABLE, Route, replace_route
from trackbed.kernel.netlink.rules import PolicyRule, add_rule, list_rules
from trackbed.kernel.netlink.sockets import Socket
from trackbed_lab.topology import build_default_route

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from trackbed.kernel.netlink.codec import Message
    from trackbed.kernel.netlink.links import Link
    from trackbed_lab.topology import Cable, CableEnd, Switch, SwitchRoute, Topology

RT_SCOPE_LINK = 253
LOOKUP_PRIORITY = 200
_UP_SECONDS = 5.0


def build_namespaces(topology: Topology, folder: Path) -> None:
    """Make everything, pinned under `folder`; OSError or NetlinkError if the kernel refuses."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in topology.namespaces:
        netns.create(folder / name)
    with ExitStack() as stack:
        opened = {name: os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC) for name in topology.namespaces}
        for descriptor in opened.values():
            stack.callback(os.close, descriptor)
        for name in topology.namespaces:
            _quicken(opened[name])
        _lay(topology.cables, opened)
        for switch in topology.switches:
            _bridges(switch, opened[switch.name])
    for name in topology.namespaces:
        configure_namespace(topology, name, folder)


def _quicken(descriptor: int) -> None:
    """Loopback up, forwarding on, and addresses usable at once (no duplicate detection on our own switches)."""
    with Socket(netns=descriptor) as sock:
        sock.send([set_link(1, up=True)])
    for key, value in (("net/ipv4/ip_forward", "1"), ("net/ipv6/conf/all/forwarding", "1")):
        _write(descriptor, key, value)


def _write(descriptor: int, key: str, value: str) -> None:
    try:
        with netns.enter_netns(descriptor), open(f"/proc/sys/{key}", "w", encoding="ascii") as stream:  # noqa: PTH123 - procfs
            stream.write(value)
    except FileNotFoundError:
        return  # a kernel without IPv6


def _lay(cables: Iterable[Cable], opened: dict[str, int]) -> None:
    by_near: dict[str, list[Message]] = {}
    for cable in cables:
        near, far = (VethEnd(p.name, opened[p.netns], p.mtu_bytes, p.mac) for p in (cable.near, cable.far))
        by_near.setdefault(cable.near.netns, []).append(create_veth(near, far))
    for name, messages in by_near.items():
        with Socket(netns=opened[name]) as sock:
            sock.send(messages)


def _bridges(switch: Switch, descriptor: int) -> None:
    with Socket(netns=descriptor) as sock:
        sock.send([create_bridge(bridge.name, mtu=bridge.mtu_bytes) for bridge in switch.bridges])


def configure_namespace(topology: Topology, name: str, folder: Path) -> None:
    """Bring a namespace to what the topology says: ports up and in their bridges, addresses, routes, lookups.

    On a node only its management port is touched; its rails are for hosts.apply.
    """
    plugs = [p for c in topology.cables for p in (c.near, c.far) if p.netns == name and p.up]
    switch = next((s for s in topology.switches if s.name == name), None)
    plugs += switch.bridges if switch else ()
    with Socket(netns=folder / name) as sock:
        links = {link.name: link for link in list_links(sock)}
        sock.send([m for plug in plugs for m in _plugged(plug, links)])
        sock.send([m for plug in plugs for m in _addressed(plug, links[plug.name], sock)])
        if switch is not None:
            _ways(switch, links, sock)
        else:
            sock.send([replace_route(_route(build_default_route(), links))])
    for plug in plugs if switch else ():
        _write_in(folder / name, f"net/ipv4/conf/{plug.name}/arp_ignore", "0")


def _write_in(path: Path, key: str, value: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _write(descriptor, key, value)
    finally:
        os.close(descriptor)


def _plugged(plug: CableEnd, links: dict[str, Link]) -> Iterable[Message]:
    link = links[plug.name]
    master = links[plug.bridge].index if plug.bridge else None
    yield set_link(link.index, up=True, mtu=plug.mtu_bytes, master=master)


def _addressed(plug: CableEnd, link: Link, sock: Socket) -> Iterable[Message]:
    wanted = [Address(link.index, FAMILY[v], a, p, flags=_flags(v)) for v, a, p in plug.addresses]
    keys = {(a.family, a.address, a.prefix) for a in wanted}
    for have in list_addresses(sock):
        if have.index == link.index and have.scope == 0 and (have.family, have.address, have.prefix) not in keys:
            yield delete_address(have)
    yield from map(replace_address, wanted)


def _flags(version: int) -> int:
    return IFA_F_NODAD if version == 6 else 0  # noqa: PLR2004 - the IP version


def _ways(switch: Switch, links: dict[str, Link], sock: Socket) -> None:
    sock.send([replace_route(_route(way, links)) for way in switch.routes])
    own = {(r.iif, r.table) for r in list_rules(sock) if r.iif}
    families = {FAMILY[way.destination.version] for way in switch.routes if way.table != 254}  # noqa: PLR2004 - RT_TABLE_MAIN
    rules = [
        PolicyRule(family, LOOKUP_PRIORITY, table, iif=interface)
        for interface, table in switch.lookups
        if (interface, table) not in own
        for family in sorted(families)
    ]
    sock.send([add_rule(rule) for rule in rules])
    bridges = [(b, links[b.name].index) for b in switch.bridges if b.addresses]
    for bridge, index in bridges:
        table = dict(switch.lookups).get(bridge.name)
        if table:
            sock.send([replace_route(_connected(v, a, p, index, table)) for v, a, p in bridge.addresses])


def _connected(version: int, address: int, prefix: int, index: int, table: int) -> Route:
    bits = (32 if version == 4 else 128) - prefix  # noqa: PLR2004 - the IP version
    return Route(FAMILY[version], table, address >> bits << bits, prefix, index, scope=RT_SCOPE_LINK)


def _route(way: SwitchRoute, links: dict[str, Link]) -> Route:
    kind = RTN_UNREACHABLE if way.unreachable else RTN_UNICAST
    index = links[way.interface].index if way.interface else 0
    return Route(
        FAMILY[way.destination.version],
        way.table,
        way.destination.base,
        way.destination.prefix,
        index,
        way.gateway,
        type=kind,
    )


def wait_until_up(folder: Path, names: Iterable[str]) -> None:
    """Wait (bounded) until every port that is up has carrier and every IPv6 address is usable.

    Frames sent before the kernel's link watch has run are lost, and ARP asks again only after a second.
    """
    deadline = time.monotonic() + _UP_SECONDS
    waiting = list(names)
    while waiting and time.monotonic() < deadline:
        waiting = [name for name in waiting if not _is_up(folder / name)]
        if waiting:
            time.sleep(0.01)


def _is_up(path: Path) -> bool:
    with Socket(netns=path) as sock:
        links = [link for link in list_links(sock) if link.kind and link.up]
        return all(link.operstate == "up" for link in links)
