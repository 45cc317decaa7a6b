"""Routes (include/uapi/linux/rtnetlink.h). Addresses are ints; 0 means none."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from errno import ENOENT

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.addresses import WIDTH, pack_address
from trackbed.kernel.netlink.codec import (
    NLM_F_APPEND,
    NLM_F_CREATE,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    Identity,
    Message,
)
from trackbed.kernel.netlink.sockets import RequestError, Socket

RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26
RTA_DST, RTA_SRC, RTA_OIF, RTA_GATEWAY, RTA_PRIORITY, RTA_PREFSRC, RTA_MULTIPATH, RTA_TABLE = 1, 2, 4, 5, 6, 7, 9, 15
RTA_CACHEINFO = 12
RTN_UNICAST, RTN_BLACKHOLE, RTN_UNREACHABLE, RTN_PROHIBIT = 1, 6, 7, 8
RT_SCOPE_UNIVERSE, RT_SCOPE_LINK = 0, 253
RTPROT_KERNEL, RTPROT_STATIC, RTPROT_RA = 2, 4, 9
RTNH_F_ONLINK, RTNH_F_LINKDOWN = 4, 16
RTM_F_CLONED, RTM_F_LOOKUP_TABLE = 0x200, 0x1000
RT_TABLE_MAIN, RT_TABLE_LOCAL = 254, 255
_HIGHEST_SMALL_TABLE = 255

_INFO = struct.Struct("=BBBBBBBBI")
_HOP = struct.Struct("=HBBi")


@dataclass(frozen=True)
class Route:
    """A route; `oif` is an interface index, `metric` 0 means none (IPv6 then uses 1024)."""

    family: int
    table: int
    dst: int = 0
    prefix: int = 0
    oif: int = 0
    gateway: int = 0
    prefsrc: int = 0
    protocol: int = RTPROT_STATIC
    scope: int = RT_SCOPE_UNIVERSE
    type: int = RTN_UNICAST
    metric: int = 0
    onlink: bool = False
    linkdown: bool = False
    hops: tuple[int, ...] = ()
    """Set on listed routes only: interface indexes of several next hops; `oif`, `gateway`, `onlink` and `linkdown`
    describe the first of them."""
    body: bytes = field(default=b"", compare=False, repr=False)
    """Set on listed routes only: the kernel's message, without flags of the present state, which cannot be set."""


def list_routes(sock: Socket, family: int = 0, table: int = 0, oif: int = 0) -> tuple[Route, ...]:
    """Return the routes of a family (0: both), table (0: all) and interface (0: all), without local and cached ones."""
    routes = []
    filters = b"".join(
        codec.pack_u32(attribute_type, value) for attribute_type, value in ((RTA_TABLE, table), (RTA_OIF, oif)) if value
    )
    for address_family in (family,) if family else (socket.AF_INET, socket.AF_INET6):
        body = _INFO.pack(address_family, 0, 0, 0, 0, 0, 0, 0, 0) + filters
        try:
            replies = sock.dump(Message(RTM_GETROUTE, 0, body))
        except RequestError as error:
            if table and error.errno == ENOENT:
                continue  # a table without routes does not exist
            raise
        routes += [_parse_route(reply.body) for reply in replies if not _is_cloned(reply.body)]
    selected = (route for route in routes if route.table != RT_TABLE_LOCAL)
    return tuple(route for route in selected if table in {0, route.table} and oif in {0, route.oif})


def _is_cloned(body: memoryview) -> bool:
    return bool(codec.unpack_header(_INFO, body)[8] & RTM_F_CLONED)


def _parse_route(body: memoryview) -> Route:
    header = codec.unpack_header(_INFO, body)
    family, prefix, _, _, small_table, protocol, scope, route_type, flags = header
    settable = _INFO.pack(*header[:8], flags & RTNH_F_ONLINK) + body[_INFO.size :]
    attributes = codec.parse_attributes(body, _INFO.size)
    hops = tuple(_iter_hops(attributes.get(RTA_MULTIPATH, b"")))
    if RTA_MULTIPATH in attributes:
        attributes, flags = _merge_first_hop(attributes, flags)
    return Route(
        family=family,
        table=codec.as_int(attributes.get(RTA_TABLE), small_table),
        dst=int.from_bytes(attributes.get(RTA_DST, b""), "big"),
        prefix=prefix,
        oif=codec.as_int(attributes.get(RTA_OIF)),
        gateway=int.from_bytes(attributes.get(RTA_GATEWAY, b""), "big"),
        prefsrc=int.from_bytes(attributes.get(RTA_PREFSRC, b""), "big"),
        protocol=protocol,
        scope=scope,
        type=route_type,
        metric=codec.as_int(attributes.get(RTA_PRIORITY)),
        onlink=bool(flags & RTNH_F_ONLINK),
        linkdown=bool(flags & RTNH_F_LINKDOWN),
        hops=hops,
        body=settable,
    )


def _iter_hops(hops: bytes | memoryview) -> Iterator[int]:
    """Yield the interface index of each next hop."""
    offset = 0
    while offset < len(hops):
        length, _, _, index = codec.unpack_header(_HOP, hops, offset)
        yield index
        offset += max(length, _HOP.size)


def _merge_first_hop(attributes: dict[int, memoryview], flags: int) -> tuple[dict[int, memoryview], int]:
    """Return attributes and flags of a multipath route with those of its first hop merged in."""
    hops = attributes[RTA_MULTIPATH]
    length, hop_flags, _, index = codec.unpack_header(_HOP, hops)
    hop_attributes = codec.parse_attributes(hops[:length], _HOP.size)
    oif = memoryview(struct.pack("=i", index))
    return attributes | hop_attributes | {RTA_OIF: oif}, flags | hop_flags


def _build_message(message_type: int, flags: int, route: Route) -> Message:
    family = route.family
    small = route.table if route.table <= _HIGHEST_SMALL_TABLE else 0
    header = (family, route.prefix, 0, 0, small, route.protocol, route.scope, route.type)
    parts = [_INFO.pack(*header, RTNH_F_ONLINK if route.onlink else 0), codec.pack_u32(RTA_TABLE, route.table)]
    if route.prefix:
        parts.append(codec.pack_attribute(RTA_DST, pack_address(family, route.dst)))
    if route.oif:
        parts.append(codec.pack_u32(RTA_OIF, route.oif))
    if route.gateway:
        parts.append(codec.pack_attribute(RTA_GATEWAY, pack_address(family, route.gateway)))
    if route.prefsrc:
        parts.append(codec.pack_attribute(RTA_PREFSRC, pack_address(family, route.prefsrc)))
    if route.metric:
        parts.append(codec.pack_u32(RTA_PRIORITY, route.metric))
    return Message(message_type, flags, b"".join(parts))


def build_add_route(route: Route) -> Message:
    """Return the message that adds a route; the kernel rejects a duplicate destination and metric (EEXIST)."""
    return _build_message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, route)


def build_append_route(route: Route) -> Message:
    """Return the message that adds a route after existing routes to the same destination."""
    return _build_message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_APPEND, route)


def build_replace_route(route: Route) -> Message:
    """Return the message that adds a route, or replaces the first route with the same destination and metric."""
    return _build_message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, route)


def build_delete_route(route: Route) -> Message:
    """Return the message that deletes a route; it must match in every field that is set."""
    return _build_message(RTM_DELROUTE, 0, route)


def identify_route(body: bytes) -> Identity:
    """Return the identity of a listed route; its age is ignored."""
    return codec.identify(body[: _INFO.size], body, _INFO.size, {RTA_CACHEINFO})


def get_route(sock: Socket, family: int, dst: int, src: int = 0, oif: int = 0) -> Route:
    """Return the route that the kernel selects for `dst`, as `ip route get` does; its prefix covers one address.

    Raises RequestError: ENETUNREACH without a route; EHOSTUNREACH, EACCES or EINVAL for a route of type unreachable,
    prohibit or blackhole.
    """
    bits = 8 * WIDTH[family]
    flags = RTM_F_LOOKUP_TABLE if family == socket.AF_INET else 0  # IPv6 always reports the table, and refuses the flag
    parts = [_INFO.pack(family, bits, bits if src else 0, 0, 0, 0, 0, 0, flags)]
    parts.append(codec.pack_attribute(RTA_DST, pack_address(family, dst)))
    if src:
        parts.append(codec.pack_attribute(RTA_SRC, pack_address(family, src)))
    if oif:
        parts.append(codec.pack_u32(RTA_OIF, oif))
    return _parse_route(sock.request_one(Message(RTM_GETROUTE, 0, b"".join(parts))))
