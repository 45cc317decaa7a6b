"""Netlink messages and frames that only tests send."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.addresses import pack_address
from trackbed.kernel.netlink.codec import NLM_F_CREATE, NLM_F_REPLACE, Message
from trackbed.kernel.netlink.links import parse_mac
from trackbed.kernel.netlink.neighbours import NDA_DST, NDA_LLADDR, Neighbour
from trackbed.kernel.wire.lldp import NEAREST_BRIDGE, Advertisement, encode
from trackbed.kernel.wire.netns_sockets import Netns
from trackbed.kernel.wire.packets import open_packets, send_frame

_RTM_NEWNEIGH = 28
_LLDP = 0x88CC


def set_neighbour(entry: Neighbour) -> Message:
    """Return the message that adds or replaces an entry."""
    header = struct.pack("=BxxxiHBB", entry.family, entry.index, entry.state, entry.flags, 0)
    address = codec.pack_attribute(NDA_DST, pack_address(entry.family, entry.address))
    mac = codec.pack_attribute(NDA_LLADDR, parse_mac(entry.mac)) if entry.mac else b""
    return Message(_RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, header + address + mac)


def announce(netns: Netns, advertisements: Mapping[int, Advertisement]) -> None:
    """Send one LLDP frame on each interface (by ifindex)."""
    with open_packets(netns, _LLDP) as packets:
        for ifindex, advertisement in advertisements.items():
            send_frame(packets, ifindex, _LLDP, NEAREST_BRIDGE, encode(advertisement))
