"""Neighbour entries: ARP and NDP tables (include/uapi/linux/neighbour.h)."""

from __future__ import annotations

import socket
import struct
from errno import ENOENT
from typing import NamedTuple

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.addresses import pack_address
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.sockets import BatchError, Socket

RTM_DELNEIGH, RTM_GETNEIGH = 29, 30
NDA_DST, NDA_LLADDR = 1, 2
NUD_NOARP, NUD_PERMANENT = 0x40, 0x80

_INFO = struct.Struct("=BxxxiHBB")


class Neighbour(NamedTuple):
    """An entry of the neighbour table; `mac` is empty while unresolved, `state` is one of NUD_* of the header."""

    index: int  # type: ignore[assignment] # the field hides a method of tuple
    family: int
    address: int
    mac: str
    state: int
    flags: int = 0


def list_neighbours(sock: Socket, family: int = 0) -> tuple[Neighbour, ...]:
    """Return the neighbour entries of an address family (0: both)."""
    neighbours = []
    for address_family in (family,) if family else (socket.AF_INET, socket.AF_INET6):
        neighbours += [
            _parse_neighbour(reply.body)
            for reply in sock.dump(Message(RTM_GETNEIGH, 0, _INFO.pack(address_family, 0, 0, 0, 0)))
        ]
    return tuple(neighbours)


def _parse_neighbour(body: memoryview) -> Neighbour:
    family, index, state, flags, _ = codec.unpack_header(_INFO, body)
    attributes = codec.parse_attributes(body, _INFO.size)
    address = int.from_bytes(attributes.get(NDA_DST, b""), "big")
    return Neighbour(index, family, address, bytes(attributes.get(NDA_LLADDR, b"")).hex(":"), state, flags)


def build_delete_neighbour(entry: Neighbour) -> Message:
    """Return the message that deletes a neighbour entry."""
    header = _INFO.pack(entry.family, entry.index, 0, 0, 0)
    return Message(RTM_DELNEIGH, 0, header + codec.pack_attribute(NDA_DST, pack_address(entry.family, entry.address)))


def flush_neighbours(sock: Socket, index: int) -> None:
    """Delete the learned entries of an interface; static entries (NUD_PERMANENT, NUD_NOARP) are kept.

    An entry that expires in the meantime is not an error.
    """
    learned = [
        neighbour
        for neighbour in list_neighbours(sock)
        if neighbour.index == index and not neighbour.state & (NUD_PERMANENT | NUD_NOARP)
    ]
    try:
        sock.send([build_delete_neighbour(entry) for entry in learned])
    except BatchError as error:
        if any(failure.errno != ENOENT for failure in error.failures):
            raise
