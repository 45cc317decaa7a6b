import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab import netns
from trackbed_lab.topology import SPINE, Topology, build_topology

from tests.lab.fabrics import FLAT, ISOLATED, NODE_SUBNET, P2P, SHARED, planned
from tests.lab.sandboxes import in_sandbox
from trackbed.fabric.model.ranges import Range
from trackbed.kernel.netlink.addresses import Address, build_add_address, build_delete_address, list_addresses
from trackbed.kernel.netlink.links import build_set_link, get_link, list_links
from trackbed.kernel.netlink.routes import RT_SCOPE_LINK, RTPROT_STATIC, build_delete_route, list_routes
from trackbed.kernel.netlink.rules import list_rules
from trackbed.kernel.netlink.sockets import Socket

pytestmark = pytest.mark.needs("processes")

SCHEMES = {
    "point-to-point": (P2P, ""),
    "node-subnet": (NODE_SUBNET, ""),
    "shared-subnet": (SHARED, ""),
    "flat": (FLAT, ""),
    "isolated": (P2P, ISOLATED),
}
EVERY_SCHEME = pytest.mark.parametrize(("addressing", "spec"), SCHEMES.values(), ids=SCHEMES)


def state(folder: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """Return what is set in namespaces; what the kernel adds by itself, and when it likes, is left out."""
    return {name: _seen(folder / name) for name in names}


def _seen(path: Path) -> list[str]:
    with Socket(netns=path) as sock:
        links = [(link.name, link.is_up, link.master, link.mtu) for link in list_links(sock)]
        addresses = [address for address in list_addresses(sock) if address.scope == 0]
        ways = [replace(route, linkdown=False) for route in list_routes(sock) if route.protocol == RTPROT_STATIC]
        return sorted(map(str, (*links, *addresses, *ways, *list_rules(sock))))


def built(folder: Path, addressing: str, spec: str = "") -> Topology:
    made = build_topology(planned(addressing, spec))
    netns.build_namespaces(made, folder)
    return made


@EVERY_SCHEME
def test_what_was_built_has_each_planned_address_on_its_interface(tmp_path: Path, addressing: str, spec: str) -> None:
    def missing() -> list[str]:
        made = built(tmp_path / "ns", addressing, spec)
        ends = [end for cable in made.cables for end in (cable.near, cable.far)]
        wanted = [(p, a) for p in (*ends, *(b for s in made.switches for b in s.bridges)) for a in p.addresses]
        assert wanted
        return [
            f"{p.netns} {p.name} {a}" for p, (_, a, _) in wanted if a not in _held(tmp_path / "ns", p.netns, p.name)
        ]

    assert in_sandbox(tmp_path, missing) == []


@EVERY_SCHEME
def test_what_was_built_has_each_planned_route_and_no_other(tmp_path: Path, addressing: str, spec: str) -> None:
    def planned_and_found() -> list[Any]:
        made = built(tmp_path / "ns", addressing, spec)
        planned = [
            (s.name, route.table, str(route.destination), route.gateway) for s in made.switches for route in s.routes
        ]
        return [sorted(planned), sorted(route for s in made.switches for route in _routed(tmp_path / "ns", s.name))]

    planned, installed = in_sandbox(tmp_path, planned_and_found)
    assert installed == planned


@EVERY_SCHEME
def test_configuring_a_second_time_changes_nothing(tmp_path: Path, addressing: str, spec: str) -> None:
    def twice() -> list[Any]:
        folder = tmp_path / "ns"
        made = built(folder, addressing, spec)
        before = state(folder, made.namespaces)
        for name in made.namespaces:
            netns.configure_namespace(made, name, folder)
        return [before, state(folder, made.namespaces)]

    before, after = in_sandbox(tmp_path, twice)
    assert before == after


@EVERY_SCHEME
def test_a_switch_that_lost_everything_is_brought_back(tmp_path: Path, addressing: str, spec: str) -> None:
    def broken_and_mended() -> list[Any]:
        folder = tmp_path / "ns"
        made = built(folder, addressing, spec)
        leaf = made.leaf_ends["node-0", 0][0]
        before = state(folder, (leaf, SPINE))
        for name in (leaf, SPINE):
            _ruin(folder / name)
        ruined = state(folder, (leaf, SPINE))
        for name in (leaf, SPINE):
            netns.configure_namespace(made, name, folder)
        return [before, ruined, state(folder, (leaf, SPINE))]

    before, ruined, mended = in_sandbox(tmp_path, broken_and_mended)
    assert all(before[name] != ruined[name] for name in before)
    assert mended == before


def _ruin(path: Path) -> None:
    """Take addresses and gateways away, and a port out of its bridge."""
    with Socket(netns=path) as sock:
        first = next(link for link in list_links(sock) if link.kind == "veth")
        gone = [
            build_delete_address(address)
            for address in list_addresses(sock)
            if address.scope == 0 and address.index != 1
        ]
        ways = [build_delete_route(route) for route in list_routes(sock) if route.gateway]
        stray = Address(first.index, socket.AF_INET, 192 << 24 | 2 << 8 | 1, 24)  # 192.0.2.1, of nobody (RFC 5737)
        sock.send([*ways, *gone, build_add_address(stray), build_set_link(first.index, master=0, mtu=1400)])


def _routed(folder: Path, name: str) -> list[tuple[str, int, str, int]]:
    """Return a switch's routes over gateways or to nowhere: (switch, table, destination, gateway)."""
    with Socket(netns=folder / name) as sock:
        ways = [route for route in list_routes(sock) if route.protocol == RTPROT_STATIC]
    versions: dict[int, int] = {socket.AF_INET: 4, socket.AF_INET6: 6}
    return [
        (name, route.table, str(Range(versions[route.family], route.dst, route.prefix)), route.gateway)
        for route in ways
        if route.scope != RT_SCOPE_LINK
    ]


def _held(folder: Path, name: str, interface: str) -> set[int]:
    with Socket(netns=folder / name) as sock:
        index = get_link(sock, interface).index
        return {address.address for address in list_addresses(sock) if address.index == index}
