"""Netlink messages and attributes as bytes, for any protocol family (include/uapi/linux/netlink.h)."""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_U8, _U16, _U32, _U64 = struct.Struct("=B"), struct.Struct("=H"), struct.Struct("=I"), struct.Struct("=Q")
_BE32 = struct.Struct("!I")

NLM_F_REQUEST, NLM_F_MULTI, NLM_F_ACK, NLM_F_DUMP_INTR = 0x1, 0x2, 0x4, 0x10
NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE, NLM_F_APPEND = 0x100, 0x200, 0x400, 0x800
NLM_F_DUMP = 0x300
NLMSG_NOOP, NLMSG_ERROR, NLMSG_DONE, NLMSG_OVERRUN = 1, 2, 3, 4
NLA_F_NESTED = 0x8000
_TYPE_MASK = 0x3FFF


class NetlinkError(Exception):
    """Anything that goes wrong between us and the kernel; sockets.py draws the tree."""


class MalformedError(NetlinkError):
    """Bytes that are no netlink message."""


class Message(NamedTuple):
    """One message: type, flags (NLM_F_REQUEST is added), body with its fixed header and attributes."""

    type: int
    flags: int
    body: bytes


def pack_attribute(kind: int, value: bytes) -> bytes:
    """One attribute, padded to 4 bytes."""
    length = 4 + len(value)
    return _ATTRIBUTE.pack(length, kind) + value + bytes(-length % 4)


def pack_u8(kind: int, value: int) -> bytes:
    """An attribute of one byte."""
    return pack_attribute(kind, _U8.pack(value))


def pack_u16(kind: int, value: int) -> bytes:
    """An attribute of two bytes, native order."""
    return pack_attribute(kind, _U16.pack(value))


def pack_u32(kind: int, value: int) -> bytes:
    """An attribute of four bytes, native order."""
    return pack_attribute(kind, _U32.pack(value))


def pack_u64(kind: int, value: int) -> bytes:
    """An attribute of eight bytes, native order."""
    return pack_attribute(kind, _U64.pack(value))


def pack_be32(kind: int, value: int) -> bytes:
    """An attribute of four bytes, network order (netfilter)."""
    return pack_attribute(kind, _BE32.pack(value))


def pack_string(kind: int, value: str) -> bytes:
    """An attribute of text, closed by NUL."""
    return pack_attribute(kind, value.encode() + b"\0")


def pack_nested(kind: int, *inner: bytes) -> bytes:
    """An attribute that holds attributes."""
    return pack_attribute(kind | NLA_F_NESTED, b"".join(inner))


def pack_message(message: Message, sequence: int, flags: int = 0) -> bytes:
    """The message with its header, padded."""
    length = HEADER.size + len(message.body)
    head = HEADER.pack(length, message.type, message.flags | flags | NLM_F_REQUEST, sequence, 0)
    return head + message.body + bytes(-length % 4)


class Received(NamedTuple):
    """One message of the kernel."""

    type: int
    flags: int
    sequence: int
    body: memoryview


def parse_messages(raw: bytes | memoryview) -> Iterator[Received]:
    """Take a datagram apart; MalformedError when a length is impossible."""
    view, at = memoryview(raw), 0
    while at < len(view):
        length, kind, flags, sequence, _ = unpack_header(HEADER, view, at)
        if length < HEADER.size or at + length > len(view):
            msg = f"message of {length} bytes at {at} in a datagram of {len(view)}"
            raise MalformedError(msg)
        yield Received(kind, flags, sequence, view[at + HEADER.size : at + length])
        at += length + (-length % 4)


def parse_attributes(body: bytes | memoryview, at: int = 0) -> dict[int, memoryview]:
    """The attributes behind the first `at` bytes, by type (the last of a type wins); MalformedError when cut short."""
    return dict(iter_attributes(body, at))


def iter_attributes(body: bytes | memoryview, at: int = 0) -> Iterator[tuple[int, memoryview]]:
    """The attributes one by one, for lists in which a type comes again; raises as `attributes`."""
    view, end = memoryview(body), len(body)
    while at < end:
        length, kind = unpack_header(_ATTRIBUTE, view, at)
        if length < _ATTRIBUTE.size or at + length > end:
            msg = f"attribute {kind & _TYPE_MASK} of {length} bytes at {at} of {end}"
            raise MalformedError(msg)
        yield kind & _TYPE_MASK, view[at + 4 : at + length]
        at += length + (-length % 4)


def unpack_header(layout: struct.Struct, body: bytes | memoryview, at: int = 0) -> tuple[int, ...]:
    """The fixed struct at `at`; MalformedError when it is cut short."""
    try:
        return layout.unpack_from(body, at)
    except struct.error as error:
        msg = f"{len(body) - at} bytes at {at}, where {layout.size} were due"
        raise MalformedError(msg) from error


def as_int(value: bytes | memoryview | None, default: int = 0) -> int:
    """A number of 1, 2, 4 or 8 bytes in native order; `default` where the attribute is absent."""
    return default if value is None else int.from_bytes(value, sys.byteorder)


def as_text(value: bytes | memoryview | None) -> str:
    """Text up to the first NUL; empty where the attribute is absent."""
    return "" if value is None else bytes(value).partition(b"\0")[0].decode(errors="replace")
