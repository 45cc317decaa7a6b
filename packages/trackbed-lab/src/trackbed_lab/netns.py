"""The namespaces, cables and switches of a topology, built with a few netlink batches each.

`configure_namespace` is idempotent: it restores the planned configuration of a namespace at any time.
"""

import os
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from trackbed.fabric.model.ranges import BITS, V6
from trackbed.fabric.plan.routes import MAIN_TABLE
from trackbed.kernel.netlink import netns
from trackbed.kernel.netlink.addresses import (
    FAMILY,
    IFA_F_NODAD,
    Address,
    build_delete_address,
    build_replace_address,
    list_addresses,
)
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.links import (
    Link,
    VethEnd,
    build_create_bridge,
    build_create_veth,
    build_set_link,
    list_links,
)
from trackbed.kernel.netlink.routes import RTN_UNICAST, RTN_UNREACHABLE, Route, build_replace_route
from trackbed.kernel.netlink.rules import PolicyRule, build_add_rule, list_rules
from trackbed.kernel.netlink.sockets import Socket
from trackbed_lab.topology import Cable, CableEnd, Switch, SwitchRoute, Topology, build_default_route

RT_SCOPE_LINK = 253
LOOKUP_PRIORITY = 200
_UP_SECONDS = 60.0


def build_namespaces(topology: Topology, folder: Path) -> None:
    """Create all namespaces, pinned below `folder`, and connect and configure them.

    Raises:
        OSError, NetlinkError: the kernel refuses.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in topology.namespaces:
        netns.create_netns(folder / name)
    with ExitStack() as stack:
        descriptors = {name: os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC) for name in topology.namespaces}
        for descriptor in descriptors.values():
            stack.callback(os.close, descriptor)
        for descriptor in descriptors.values():
            _enable_forwarding(descriptor)
        _create_cables(topology.cables, descriptors)
        for switch in topology.switches:
            _create_bridges(switch, descriptors[switch.name])
    for name in topology.namespaces:
        configure_namespace(topology, name, folder)


def _enable_forwarding(descriptor: int) -> None:
    """Set the loopback up and enable forwarding."""
    with Socket(netns=descriptor) as sock:
        sock.send([build_set_link(1, up=True)])
    for key, value in (("net/ipv4/ip_forward", "1"), ("net/ipv6/conf/all/forwarding", "1")):
        _write_sysctl(descriptor, key, value)


def _write_sysctl(descriptor: int, key: str, value: str) -> None:
    """Write /proc/sys/KEY in a namespace, if the kernel has it."""
    try:
        with netns.enter_netns(descriptor), open(f"/proc/sys/{key}", "w", encoding="ascii") as stream:  # noqa: PTH123 - procfs
            stream.write(value)
    except FileNotFoundError:
        return  # a kernel without IPv6


def _create_cables(cables: Iterable[Cable], descriptors: dict[str, int]) -> None:
    """Create a veth pair for each cable, in one batch for each near namespace."""
    messages_by_netns: dict[str, list[Message]] = {}
    for cable in cables:
        near, far = (
            VethEnd(end.name, descriptors[end.netns], end.mtu_bytes, end.mac) for end in (cable.near, cable.far)
        )
        messages_by_netns.setdefault(cable.near.netns, []).append(build_create_veth(near, far))
    for name, messages in messages_by_netns.items():
        with Socket(netns=descriptors[name]) as sock:
            sock.send(messages)


def _create_bridges(switch: Switch, descriptor: int) -> None:
    with Socket(netns=descriptor) as sock:
        sock.send([build_create_bridge(bridge.name, mtu=bridge.mtu_bytes) for bridge in switch.bridges])


def configure_namespace(topology: Topology, name: str, folder: Path) -> None:
    """Configure a namespace as planned: interfaces up and in their bridges, addresses, routes, lookups.

    On a node only the management interface is configured; its rails are configured by apply.
    """
    ends = [end for cable in topology.cables for end in (cable.near, cable.far) if end.netns == name and end.up]
    switch = next((switch for switch in topology.switches if switch.name == name), None)
    ends += switch.bridges if switch else ()
    with Socket(netns=folder / name) as sock:
        links = {link.name: link for link in list_links(sock)}
        sock.send([_build_link_message(end, links) for end in ends])
        sock.send([message for end in ends for message in _iter_address_messages(end, links[end.name], sock)])
        if switch is not None:
            _configure_routes(switch, links, sock)
        else:
            sock.send([build_replace_route(_build_route(build_default_route(), links))])
    if switch:
        _answer_arp_for_all(folder / name, ends)


def _answer_arp_for_all(path: Path, ends: Iterable[CableEnd]) -> None:
    """Let interfaces answer ARP requests for every address of the namespace."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for end in ends:
            _write_sysctl(descriptor, f"net/ipv4/conf/{end.name}/arp_ignore", "0")
    finally:
        os.close(descriptor)


def _build_link_message(end: CableEnd, links: dict[str, Link]) -> Message:
    master = links[end.bridge].index if end.bridge else None
    return build_set_link(links[end.name].index, up=True, mtu=end.mtu_bytes, master=master)


def _iter_address_messages(end: CableEnd, link: Link, sock: Socket) -> Iterable[Message]:
    """Yield messages that delete unplanned global addresses and set the planned ones, usable at once (no DAD)."""
    planned = [
        Address(link.index, FAMILY[version], address, prefix, flags=IFA_F_NODAD if version == V6 else 0)
        for version, address, prefix in end.addresses
    ]
    keys = {(address.family, address.address, address.prefix) for address in planned}
    for address in list_addresses(sock):
        key = (address.family, address.address, address.prefix)
        if address.index == link.index and address.scope == 0 and key not in keys:
            yield build_delete_address(address)
    yield from map(build_replace_address, planned)


def _configure_routes(switch: Switch, links: dict[str, Link], sock: Socket) -> None:
    """Set a switch's routes, the rules of its lookups, and the connected routes of their tables."""
    sock.send([build_replace_route(_build_route(route, links)) for route in switch.routes])
    existing = {(rule.iif, rule.table) for rule in list_rules(sock) if rule.iif}
    families = {FAMILY[route.destination.version] for route in switch.routes if route.table != MAIN_TABLE}
    rules = [
        PolicyRule(family, LOOKUP_PRIORITY, table, iif=interface)
        for interface, table in switch.lookups
        if (interface, table) not in existing
        for family in sorted(families)
    ]
    sock.send([build_add_rule(rule) for rule in rules])
    for bridge in switch.bridges:
        table = dict(switch.lookups).get(bridge.name)
        if table and bridge.addresses:
            index = links[bridge.name].index
            routes = [_build_connected_route(*address, index, table) for address in bridge.addresses]
            sock.send([build_replace_route(route) for route in routes])


def _build_connected_route(ip_version: int, address: int, prefix_length: int, link_index: int, table: int) -> Route:
    host_bits = BITS[ip_version] - prefix_length
    base = address >> host_bits << host_bits
    return Route(FAMILY[ip_version], table, base, prefix_length, link_index, scope=RT_SCOPE_LINK)


def _build_route(route: SwitchRoute, links: dict[str, Link]) -> Route:
    destination, kind = route.destination, RTN_UNREACHABLE if route.unreachable else RTN_UNICAST
    index = links[route.interface].index if route.interface else 0
    family = FAMILY[destination.version]
    return Route(family, route.table, destination.base, destination.prefix, index, route.gateway, type=kind)


def wait_until_up(folder: Path, names: Iterable[str]) -> None:
    """Wait until every interface that is up is operational. Raises TimeoutError after a minute.

    Frames sent before the kernel's link watch has run are lost, and ARP retries only after a second.
    """
    deadline = time.monotonic() + _UP_SECONDS
    waiting = list(names)
    while waiting := [name for name in waiting if not _are_links_operational(folder / name)]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no link of {', '.join(waiting)} came up within {_UP_SECONDS:.0f} s")
        time.sleep(0.01)


def _are_links_operational(path: Path) -> bool:
    with Socket(netns=path) as sock:
        links = [link for link in list_links(sock) if link.kind and link.is_up]
        return all(link.operstate == "up" for link in links)
