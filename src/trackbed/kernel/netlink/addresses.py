"""Addresses of interfaces (include/uapi/linux/if_addr.h).

Addresses are ints; the family is AF_INET or AF_INET6.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.codec import NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, Identity, Message
from trackbed.kernel.netlink.sockets import Socket

RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
IFA_ADDRESS, IFA_LOCAL, IFA_LABEL, IFA_CACHEINFO, IFA_FLAGS = 1, 2, 3, 6, 8
IFA_PROTO = 11
"""Origin of an address (since Linux 5.18; older kernels ignore it)."""
IFA_F_NODAD, IFA_F_DADFAILED, IFA_F_TENTATIVE, IFA_F_PERMANENT, IFA_F_NOPREFIXROUTE = 0x02, 0x08, 0x40, 0x80, 0x200

_INFO = struct.Struct("=BBBBI")
FAMILY: dict[int, int] = {4: socket.AF_INET, 6: socket.AF_INET6}
"""Address family of each IP version."""
WIDTH: dict[int, int] = {socket.AF_INET: 4, socket.AF_INET6: 16}
"""Length of an address in bytes, by address family."""


@dataclass(frozen=True)
class Address:
    """An address of an interface; `scope` 0 is global, 253 link, 254 host; `label` exists for IPv4 only.

    `protocol` is its origin (IFA_PROTO), 0 if unspecified; `body` is the kernel's message, on listed addresses only.
    """

    index: int
    family: int
    address: int
    prefix: int
    scope: int = 0
    flags: int = 0
    label: str = ""
    protocol: int = 0
    body: bytes = field(default=b"", compare=False, repr=False)


def pack_address(family: int, address: int) -> bytes:
    """Return an address in network byte order."""
    return address.to_bytes(WIDTH[family], "big")


def list_addresses(sock: Socket, family: int = 0, index: int = 0) -> tuple[Address, ...]:
    """Return the addresses in the socket's namespace.

    `family` 0 selects both families, `index` 0 all interfaces.
    """
    families = (family,) if family else (socket.AF_INET, socket.AF_INET6)
    addresses = []
    for address_family in families:
        addresses += [
            _parse_address(reply.body)
            for reply in sock.dump(Message(RTM_GETADDR, 0, _INFO.pack(address_family, 0, 0, 0, index)))
        ]
    return tuple(address for address in addresses if index in {0, address.index})


def _parse_address(body: bytes | memoryview) -> Address:
    family, prefix, flags, scope, index = codec.unpack_header(_INFO, body)
    attributes = codec.parse_attributes(body, _INFO.size)
    local_address = attributes.get(IFA_LOCAL, attributes.get(IFA_ADDRESS, b""))
    return Address(
        index=index,
        family=family,
        address=int.from_bytes(local_address, "big"),
        prefix=prefix,
        scope=scope,
        flags=codec.as_int(attributes.get(IFA_FLAGS), flags),
        label=codec.as_text(attributes.get(IFA_LABEL)),
        protocol=codec.as_int(attributes.get(IFA_PROTO)),
        body=bytes(body),
    )


def _build_message(message_type: int, flags: int, address: Address) -> Message:
    packed = pack_address(address.family, address.address)
    parts = [
        _INFO.pack(address.family, address.prefix, 0, address.scope, address.index),
        codec.pack_attribute(IFA_LOCAL, packed),
        codec.pack_attribute(IFA_ADDRESS, packed),
    ]
    if address.flags:
        parts.append(codec.pack_u32(IFA_FLAGS, address.flags))
    if address.label:
        parts.append(codec.pack_string(IFA_LABEL, address.label))
    if address.protocol:
        parts.append(codec.pack_u8(IFA_PROTO, address.protocol))
    return Message(message_type, flags, b"".join(parts))


def build_add_address(address: Address) -> Message:
    """Return the message that adds an address; the kernel refuses a duplicate (EEXIST)."""
    return _build_message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, address)


def build_replace_address(address: Address) -> Message:
    """Return the message that adds an address, or updates its flags if it exists with this prefix length."""
    return _build_message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, address)


def build_delete_address(address: Address) -> Message:
    """Return the message that removes an address.

    The kernel refuses it (EADDRNOTAVAIL) unless the prefix length matches, and the label if one is set.
    """
    return _build_message(RTM_DELADDR, 0, address)


def identify_address(body: bytes) -> Identity:
    """Return the identity of a listed address; its age and flags (tentative, permanent) are ignored."""
    return codec.identify(body[:2] + body[3 : _INFO.size], body, _INFO.size, {IFA_CACHEINFO, IFA_FLAGS})


def build_restore_address(body: bytes) -> Message:
    """Return the message that restores a listed address.

    An IPv6 address skips duplicate detection: the kernel refuses routes that use a tentative address as their source.
    """
    address = _parse_address(body)
    flags = codec.pack_u32(IFA_FLAGS, address.flags | IFA_F_NODAD) if address.family == socket.AF_INET6 else b""
    return Message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, body + flags)
