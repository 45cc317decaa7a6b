"""The leaves' voice: LLDP (IEEE 802.1AB) on every port towards a node, a few times a second, from one process.

Sockets stay open: closing a packet socket waits for the kernel (some 16 ms each). `OVERRIDES` lets a fault change what
a port says: `{"leaf/swp1": "mute" | "vlan 999"}`.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from trackbed.kernel.netlink.links import list_links
from trackbed.kernel.netlink.sockets import Socket
from trackbed.kernel.wire import lldp, packets
from trackbed_lab.topology import SPINE

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterable

ETHERTYPE = 0x88CC
INTERVAL_SECONDS = 0.25
OVERRIDES = "lldp.json"
_UNTAGGED_VLAN = 1


def announce_leaves(leaves: Iterable[str], namespaces: Path, overrides: Path) -> NoReturn:
    """Speak until killed."""
    voices = [(leaf, packets.open_packets(namespaces / leaf, ETHERTYPE)) for leaf in leaves if leaf != SPINE]
    while True:
        said = read_overrides(overrides)
        for leaf, voice in voices:
            _once(leaf, namespaces / leaf, voice, said)
        time.sleep(INTERVAL_SECONDS)


def _once(leaf: str, netns: Path, voice: socket.socket, said: dict[str, str]) -> None:
    with Socket(netns=netns) as sock:
        ports = [link for link in list_links(sock) if link.kind == "veth" and link.name != "up" and link.up]
    for port in ports:
        told = said.get(f"{leaf}/{port.name}", "")
        vlan = int(told.removeprefix("vlan ")) if told.startswith("vlan ") else _UNTAGGED_VLAN
        frame = lldp.encode(lldp.Advertisement(leaf, port.name, system_name=leaf, port_vlan=vlan))
        try:
            if told != "mute":
                packets.send_frame(voice, port.index, ETHERTYPE, lldp.NEAREST_BRIDGE, frame)
        except OSError:
            continue  # the port went down or away while we spoke


def read_overrides(overrides: Path) -> dict[str, str]:
    """What faults make ports say."""
    try:
        read: dict[str, str] = json.loads(overrides.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return read
