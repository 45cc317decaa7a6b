"""Hosts for tests: real network namespaces with one veth for each port, and everything that is in them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import AF_INET, AF_INET6

import pytest

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.machine import Machine
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.compare import compare
from trackbed.kernel.netlink import codec, netns
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.links import VethEnd, build_create_veth, build_set_link, list_links

MACS = ("b8:3f:d2:00:00:00", "b8:3f:d2:00:00:01")
PORTS = str(list(MACS)).replace("'", '"')
"""The ports of a host as a Fabric names them."""

_QUIET = {"addr_gen_mode": "1", "accept_dad": "0"}
"""No IPv6 link-local addresses that come by themselves a moment later: a dump shows only what somebody has set."""


@dataclass(frozen=True)
class Host:
    """A machine with the interfaces eth0 and eth1 (the ports), mgmt0, and a namespace with their other ends."""

    machine: Machine
    far: Path

    @property
    def records(self) -> Path:
        """Where its undo record lies."""
        return self.machine.root / "var/lib/trackbed"

    def send(self, *messages: Message) -> None:
        """Do something to it, all in one batch."""
        with self.machine.open_socket() as sock:
            sock.send(messages)

    def index(self, name: str) -> int:
        """The index of an interface; StopIteration if there is none."""
        with self.machine.open_socket() as sock:
            return next(link.index for link in list_links(sock) if link.name == name)

    def differs(self, node: NodePlan) -> list[str]:
        """What differs from the plan of a node, in words."""
        return [change.subject for change in compare(self.machine, iter_settings(node)).changes]


def enable(root: Path, *units: str) -> None:
    """Make systemd start these units at boot in a tree; the targets of the links are not there."""
    wants = root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    for unit in units:
        (wants / unit).symlink_to(f"/lib/systemd/system/{unit}")


def install_netplan(root: Path, text: str = "network: {version: 2}\n") -> Path:
    """Put netplan's generator and a file of the site into a tree; return that file."""
    place = root / "etc/netplan/50-site.yaml"
    for path, content in ((root / "usr/lib/systemd/system-generators/netplan", ""), (place, text)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return place


@contextmanager
def host(folder: Path) -> Iterator[Host]:
    """A fresh host; its namespaces are gone with the block."""
    root = folder / "root"
    root.mkdir()
    enable(root, "systemd-networkd.service")
    near, far = folder / "near", folder / "far"
    try:
        _new(near)
        _new(far)
        made = Host(Machine(root, near), far)
        _cable(made)
        yield made
    finally:
        netns.delete_netns(near)
        netns.delete_netns(far)


def everything(machine: Machine) -> dict[str, list[object]]:
    """All links, addresses, routes (table local of IPv4, too) and rules, without ages."""
    with machine.open_socket() as sock:
        links: list[object] = [
            (link.index, link.name, link.mtu, link.is_up, link.altnames) for link in list_links(sock)
        ]
        dumps = {kind: _dump(machine, number, size, ages) for kind, number, size, ages in _TABLES}
    return {"links": links, **dumps}


_TABLES = (("addresses", 22, 8, {6}), ("routes", 26, 12, {12}), ("rules", 34, 12, set[int]()))
"""RTM_GETADDR, RTM_GETROUTE, RTM_GETRULE; size of the fixed header; IFA_CACHEINFO, RTA_CACHEINFO."""


_ROUTES, _TABLE_LOCAL = 26, 255
"""The kernel fills table local of IPv6 from addresses and carrier, some time after either: these routes are left out.

addrconf_dad_work in net/ipv6/addrconf.c, a work queue, inserts the route of an address, also of one without detection.
"""


def _dump(machine: Machine, kind: int, size: int, ages: set[int]) -> list[object]:
    results: list[object] = []
    with machine.open_socket() as sock:
        for family in (AF_INET, AF_INET6):
            for reply in sock.dump(Message(kind, 0, bytes([family]).ljust(size, b"\0"))):
                known = sorted(
                    (k, bytes(v)) for k, v in codec.parse_attributes(reply.body, size).items() if k not in ages
                )
                if (kind, family, reply.body[4]) != (_ROUTES, AF_INET6, _TABLE_LOCAL):
                    results.append((bytes(reply.body[:size]), known))
    return sorted(results, key=repr)


def _new(path: Path) -> None:
    try:
        netns.create_netns(path)
    except PermissionError as error:
        pytest.skip(f"no network namespaces here: {error}")


def _cable(made: Host) -> None:
    for key, value in _QUIET.items():
        made.machine.write_sysctl(f"net/ipv6/conf/default/{key}", value)
    far = os.open(made.far, os.O_RDONLY)
    try:
        for number, mac in enumerate(MACS):
            made.send(build_create_veth(VethEnd(f"eth{number}", mac=mac), VethEnd(f"leaf{number}", far)))
        made.send(build_create_veth(VethEnd("mgmt0"), VethEnd("office0", far)))
    finally:
        os.close(far)
    with Machine(made.machine.root, made.far).open_socket() as sock:
        sock.send([build_set_link(link.index, up=True) for link in list_links(sock)])
    made.send(*(build_set_link(made.index(name), up=True) for name in ("lo", "mgmt0")))
