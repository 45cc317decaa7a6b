"""The LLDP speaker of the leaves (IEEE 802.1AB): one process announces every port towards a node.

Its sockets stay open, because closing a packet socket takes the kernel some 16 ms. A fault overrides the announcement
of a port in the file OVERRIDES: `{"leaf/swp1": "mute" | "vlan 999"}`.
"""

import json
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from trackbed.kernel.netlink.links import list_links
from trackbed.kernel.netlink.sockets import Socket
from trackbed.kernel.wire import lldp, packets
from trackbed_lab.topology import SPINE

ETHERTYPE = 0x88CC
INTERVAL_SECONDS = 0.25
OVERRIDES = "lldp.json"
_UNTAGGED_VLAN = 1


def announce_leaves(leaves: Iterable[str], namespaces: Path, overrides: Path) -> NoReturn:
    """Announce all ports of the leaves every INTERVAL_SECONDS."""
    sockets = [(leaf, packets.open_packets(namespaces / leaf, ETHERTYPE)) for leaf in leaves if leaf != SPINE]
    while True:
        override_by_port = read_overrides(overrides)
        for leaf, sender in sockets:
            _announce_ports(leaf, namespaces / leaf, sender, override_by_port)
        time.sleep(INTERVAL_SECONDS)


def _announce_ports(leaf: str, netns: Path, sender: socket.socket, override_by_port: dict[str, str]) -> None:
    with Socket(netns=netns) as sock:
        ports = [link for link in list_links(sock) if link.kind == "veth" and link.name != "up" and link.is_up]
    for port in ports:
        override = override_by_port.get(f"{leaf}/{port.name}", "")
        vlan = int(override.removeprefix("vlan ")) if override.startswith("vlan ") else _UNTAGGED_VLAN
        frame = lldp.encode(lldp.Advertisement(leaf, port.name, system_name=leaf, port_vlan=vlan))
        try:
            if override != "mute":
                packets.send_frame(sender, port.index, ETHERTYPE, lldp.NEAREST_BRIDGE, frame)
        except OSError:
            continue  # the port was set down or removed meanwhile


def read_overrides(path: Path) -> dict[str, str]:
    """Return the override of each port that has one."""
    try:
        override_by_port: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return override_by_port
