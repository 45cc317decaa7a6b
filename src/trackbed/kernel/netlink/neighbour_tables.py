"""The sizes of the neighbour tables, ARP and NDP, and how full they are (include/uapi/linux/neighbour.h).

The kernel has one table of each family for all network namespaces. Every namespace may read its size; only the initial
one may change it (net.ipv4.neigh.default.gc_thresh3 and its IPv6 counterpart).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.sockets import Socket

RTM_GETNEIGHTBL = 66
"""include/uapi/linux/rtnetlink.h."""
_NDTA_THRESH3, _NDTA_CONFIG, _NDTA_STATS = 4, 5, 7

_INFO = struct.Struct("=Bxxx")
_CONFIG = struct.Struct("=HHI")
"""The start of struct ndt_config: lengths of key and entry, number of entries."""
_STATISTICS = struct.Struct("=11Q")
"""struct ndt_stats; its last number counts the neighbours that found no room (NEIGH_CACHE_STAT table_fulls)."""


class NeighbourTable(NamedTuple):
    """The table of one address family, which all network namespaces share."""

    family: int
    entries: int
    """Entries of all namespaces, those included that the kernel may remove."""
    size: int
    """gc_thresh3: the entries that the kernel holds at most."""
    overflows: int
    """How often a new neighbour found no room, since the kernel started."""


def list_neighbour_tables(sock: Socket) -> tuple[NeighbourTable, ...]:
    """Return the tables of both families, IPv4 first. Raises NetlinkError."""
    replies = sock.dump(Message(RTM_GETNEIGHTBL, 0, _INFO.pack(0)))
    tables = [_parse_table(reply.body) for reply in replies]
    return tuple(sorted(table for table in tables if table is not None))


def _parse_table(body: memoryview) -> NeighbourTable | None:
    """Return the table of a message; None for the parameters of one interface, which have no size."""
    (family,) = codec.unpack_header(_INFO, body)
    attributes = codec.parse_attributes(body, _INFO.size)
    if _NDTA_CONFIG not in attributes or _NDTA_STATS not in attributes:
        return None
    _, _, entries = codec.unpack_header(_CONFIG, attributes[_NDTA_CONFIG])
    overflows = codec.unpack_header(_STATISTICS, attributes[_NDTA_STATS])[-1]
    return NeighbourTable(family, entries, codec.as_int(attributes.get(_NDTA_THRESH3)), overflows)
