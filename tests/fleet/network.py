"""Hosts with real interfaces, addresses and MACs, whose leaves send LLDP, and faults that are mended again.

Each host is a network namespace behind a real sshd (see ground.py), prepared by `trackbed apply --nodes`. What a
namespace cannot have, GUIDs and firmware of its NICs, is in a tree of files.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from tests.cli.test_captures_together import Server
from tests.fleet.ground import mac
from tests.fleet.site import Site, site
from tests.kernel.senders import announce
from trackbed.kernel.netlink.addresses import Address, build_add_address, build_delete_address
from trackbed.kernel.netlink.links import build_set_link, list_links
from trackbed.kernel.netlink.sockets import Socket
from trackbed.kernel.wire.lldp import Advertisement

HOSTS, REFUSED = 9, 9
"""The last host refuses connections."""
_READ = range(1, HOSTS)
_FABRIC = """apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {{name: train}}
spec:
  nodes: [{{hosts: "gpu[001-009]", hostPorts: {ports}}}]
  rails: 2
  nodesPerUnit: 4
  addressing: {{scheme: point-to-point, ipv4: 10.64.0.0/15}}
"""
_INTERVAL_SECONDS = 0.2


@dataclass
class Network:
    """A site, its plan, and the leaf at the other end of each cable, by host and rail."""

    site: Site
    plan: dict[str, Any]
    leaves: dict[tuple[int, int], str]

    def find_links(self, number: int) -> dict[str, int]:
        """Return the ifindexes of a host's interfaces by name; those of the leaves' ends are `leaf0` and `leaf1`."""
        with Socket(netns=self.site.netns(number)) as sock:
            return {link.name: link.index for link in list_links(sock)}

    def set_link(self, number: int, name: str, **values: Any) -> None:
        """Change an interface of a host."""
        with Socket(netns=self.site.netns(number)) as sock:
            sock.send([build_set_link(self.find_links(number)[name], **values)])

    def get_address(self, number: int, rail: int) -> str:
        """Return a planned address, without its prefix."""
        address: str = self.plan["nodes"][number - 1]["ports"][rail]["ipv4"]["address"]
        return address.partition("/")[0]

    def send_lldp(self) -> None:
        """Send one frame to each host on each rail; an end that is down sends none."""
        for number in _READ:
            links = self.find_links(number)
            for rail in range(2):
                leaf = self.leaves[number, rail]
                frame = Advertisement(leaf, f"swp{number}", system_name=leaf)
                with suppress(OSError):
                    announce(self.site.netns(number), {links[f"leaf{rail}"]: frame})

    def diagnose(self, nodes: str) -> dict[str, Any]:
        """Return the JSON of doctor; it waits until all leaves are heard, at most 5 s."""
        done = self.site.trackbed("doctor", "--nodes", nodes, "--lldp", "5", "-o", "json")
        document: dict[str, Any] = json.loads(done.stdout)
        return document


@contextmanager
def prepared_network(folder: Path) -> Iterator[Network]:
    """Prepare a site of sound hosts, except for the one that refuses connections."""
    with site(folder, HOSTS, {REFUSED: "refused"}) as built:
        ports = {f"gpu{number:03}": [mac(number, rail) for rail in range(2)] for number in range(1, HOSTS + 1)}
        (folder / "fabric.yaml").write_text(_FABRIC.format(ports=json.dumps(ports)))
        done = built.trackbed("apply", "--nodes", "gpu[001-008]", "--yes", "--batch", "100%")
        assert done.returncode == 0, done.stdout + done.stderr
        plan = json.loads(built.run("plan", "-o", "json").stdout)
        for number in _READ:
            Server(number, []).write_files(built.root(number))
        leaves = {
            (number, rail): plan["nodes"][number - 1]["ports"][rail]["leaf"] for number in _READ for rail in range(2)
        }
        network = Network(built, plan, leaves)
        with _sending(network):
            yield network


@contextmanager
def _sending(network: Network) -> Iterator[None]:
    """Send LLDP all the time, as leaves do."""
    stop = threading.Event()

    def send_until_stopped() -> None:
        while not stop.wait(_INTERVAL_SECONDS):
            network.send_lldp()

    thread = threading.Thread(target=send_until_stopped)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


Injection = Callable[[Network], AbstractContextManager[None]]


@contextmanager
def hold_address_twice(network: Network) -> Iterator[None]:
    """Add the address of gpu002 on rail 1 to gpu005."""
    number = int(ip_address(network.get_address(2, 1)))
    address = Address(network.find_links(5)["rail1"], socket.AF_INET, number, 32)
    with Socket(netns=network.site.netns(5)) as sock:
        sock.send([build_add_address(address)])
        yield
        sock.send([build_delete_address(address)])


@contextmanager
def hold_mac_twice(network: Network) -> Iterator[None]:
    """Give the port of gpu005 on rail 1 the MAC of gpu002's."""
    network.set_link(5, "rail1", mac=mac(2, 1))
    yield
    network.set_link(5, "rail1", mac=mac(5, 1))


@contextmanager
def darken_leaf(network: Network) -> Iterator[None]:
    """Set down the leaf of rail 0 of the first unit."""
    for number in range(1, 5):
        network.set_link(number, "leaf0", up=False)
    yield
    for number in range(1, 5):
        network.set_link(number, "leaf0", up=True)


@contextmanager
def swap_cables(network: Network) -> Iterator[None]:
    """Swap the cables of gpu002 and gpu007 on rail 1."""
    leaves, (first, second) = network.leaves, ((2, 1), (7, 1))
    leaves[first], leaves[second] = leaves[second], leaves[first]
    yield
    leaves[first], leaves[second] = leaves[second], leaves[first]


@contextmanager
def shrink_mtu(network: Network) -> Iterator[None]:
    """Give the ports of rail 1 the MTU 1500 on all hosts."""
    for number in _READ:
        network.set_link(number, "rail1", mtu=1500)
    yield
    for number in _READ:
        network.set_link(number, "rail1", mtu=9000)


def replace_file(number: int, path: str, text: str) -> Injection:
    """Return an injection that changes a file of a host."""

    @contextmanager
    def inject(network: Network) -> Iterator[None]:
        file = network.site.root(number) / path
        before = file.read_text()
        file.write_text(text)
        yield
        file.write_text(before)

    return inject


def find_nic_file(rail: int, name: str) -> str:
    """Return the path of a file of a rail's RDMA device."""
    return f"sys/devices/pci0000:00/0000:{18 + rail}:00.0/infiniband/rail{rail}/{name}"
