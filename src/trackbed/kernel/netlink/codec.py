"""Netlink messages and attributes as bytes, for any protocol family (include/uapi/linux/netlink.h)."""

from __future__ import annotations

import struct
import sys
from collections.abc import Container, Iterator
from typing import NamedTuple

HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_U8, _U32 = struct.Struct("=B"), struct.Struct("=I")
_BE32 = struct.Struct("!I")

NLM_F_REQUEST, NLM_F_ACK, NLM_F_DUMP_INTR = 0x1, 0x4, 0x10
NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE, NLM_F_APPEND = 0x100, 0x200, 0x400, 0x800
NLM_F_DUMP = 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
NLA_F_NESTED = 0x8000
_TYPE_MASK = 0x3FFF


class NetlinkError(Exception):
    """Base of all netlink errors; `sockets` lists them."""


class MalformedError(NetlinkError):
    """Bytes that are not a valid netlink message."""


class Message(NamedTuple):
    """A message to send: type, flags (NLM_F_REQUEST is added), body (fixed header and attributes)."""

    type: int
    flags: int
    body: bytes


def pack_attribute(attribute_type: int, value: bytes) -> bytes:
    """Return an attribute, padded to 4 bytes."""
    length = 4 + len(value)
    return _ATTRIBUTE.pack(length, attribute_type) + value + bytes(-length % 4)


def pack_u8(attribute_type: int, value: int) -> bytes:
    """Return an attribute that holds a one-byte number."""
    return pack_attribute(attribute_type, _U8.pack(value))


def pack_u32(attribute_type: int, value: int) -> bytes:
    """Return an attribute that holds a four-byte number in native byte order."""
    return pack_attribute(attribute_type, _U32.pack(value))


def pack_be32(attribute_type: int, value: int) -> bytes:
    """Return an attribute that holds a four-byte number in network byte order (netfilter)."""
    return pack_attribute(attribute_type, _BE32.pack(value))


def pack_string(attribute_type: int, value: str) -> bytes:
    """Return an attribute that holds NUL-terminated text."""
    return pack_attribute(attribute_type, value.encode() + b"\0")


def pack_nested(attribute_type: int, *inner: bytes) -> bytes:
    """Return an attribute that holds other attributes."""
    return pack_attribute(attribute_type | NLA_F_NESTED, b"".join(inner))


def pack_message(message: Message, sequence: int, flags: int = 0) -> bytes:
    """Return a message with its header, padded to 4 bytes."""
    length = HEADER.size + len(message.body)
    header = HEADER.pack(length, message.type, message.flags | flags | NLM_F_REQUEST, sequence, 0)
    return header + message.body + bytes(-length % 4)


class ReceivedMessage(NamedTuple):
    """A message from the kernel."""

    type: int
    flags: int
    sequence: int
    body: memoryview


def parse_messages(datagram: bytes | memoryview) -> Iterator[ReceivedMessage]:
    """Yield the messages of a datagram. Raises MalformedError if a length is invalid."""
    body, offset = memoryview(datagram), 0
    while offset < len(body):
        length, message_type, flags, sequence, _ = unpack_header(HEADER, body, offset)
        if length < HEADER.size or offset + length > len(body):
            raise MalformedError(f"message of {length} bytes at {offset} in a datagram of {len(body)}")
        yield ReceivedMessage(message_type, flags, sequence, body[offset + HEADER.size : offset + length])
        offset += length + (-length % 4)


def parse_attributes(body: bytes | memoryview, offset: int = 0) -> dict[int, memoryview]:
    """Return the attributes that follow the first `offset` bytes, by type; the last of a type wins.

    Raises MalformedError if an attribute is truncated.
    """
    return dict(iter_attributes(body, offset))


def iter_attributes(body: bytes | memoryview, offset: int = 0) -> Iterator[tuple[int, memoryview]]:
    """Yield the attributes in order, for lists that repeat a type; raises as `parse_attributes`."""
    view, end = memoryview(body), len(body)
    while offset < end:
        length, attribute_type = unpack_header(_ATTRIBUTE, view, offset)
        if length < _ATTRIBUTE.size or offset + length > end:
            raise MalformedError(f"attribute {attribute_type & _TYPE_MASK} of {length} bytes at {offset} of {end}")
        yield attribute_type & _TYPE_MASK, view[offset + 4 : offset + length]
        offset += length + (-length % 4)


Identity = tuple[bytes, tuple[tuple[int, bytes], ...]]
"""Identity of an entry of a kernel table: a part of its fixed header, and its attributes by type."""


def identify(header: bytes, body: bytes, offset: int, volatile: Container[int] = ()) -> Identity:
    """Return the identity of an entry from its message; the attributes `volatile` (ages, states) are ignored."""
    attributes = parse_attributes(body, offset).items()
    return header, tuple(sorted((number, bytes(value)) for number, value in attributes if number not in volatile))


def unpack_header(layout: struct.Struct, body: bytes | memoryview, offset: int = 0) -> tuple[int, ...]:
    """Unpack the fixed struct at `offset`. Raises MalformedError if it is truncated."""
    try:
        return layout.unpack_from(body, offset)
    except struct.error as error:
        raise MalformedError(f"{len(body) - offset} bytes at {offset}, expected {layout.size}") from error


def as_int(value: bytes | memoryview | None, default: int = 0) -> int:
    """Return a number of 1, 2, 4 or 8 bytes in native byte order; `default` if the attribute is absent."""
    return default if value is None else int.from_bytes(value, sys.byteorder)


def as_text(value: bytes | memoryview | None) -> str:
    """Return the text up to the first NUL; empty if the attribute is absent."""
    return "" if value is None else bytes(value).partition(b"\0")[0].decode(errors="replace")
