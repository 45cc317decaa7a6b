"""Addresses of interfaces (include/uapi/linux/if_addr.h). Addresses are ints; the family is AF_INET or AF_INET6."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.codec import NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, Message

if TYPE_CHECKING:
    from trackbed.kernel.netlink.sockets import Socket

RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
IFA_ADDRESS, IFA_LOCAL, IFA_LABEL, IFA_BROADCAST, IFA_FLAGS = 1, 2, 3, 4, 8
IFA_F_NODAD, IFA_F_DADFAILED, IFA_F_TENTATIVE, IFA_F_PERMANENT, IFA_F_NOPREFIXROUTE = 0x02, 0x08, 0x40, 0x80, 0x200

_INFO = struct.Struct("=BBBBI")
FAMILY: dict[int, int] = {4: socket.AF_INET, 6: socket.AF_INET6}
"""Address family of each IP version."""
WIDTH: dict[int, int] = {socket.AF_INET: 4, socket.AF_INET6: 16}
"""Bytes of an address, by family."""


@dataclass(frozen=True, slots=True)
class Address:
    """One address on an interface; `scope` 0 is global, 253 link, 254 host; `label` is IPv4's."""

    index: int
    family: int
    address: int
    prefix: int
    scope: int = 0
    flags: int = 0
    label: str = ""


def pack_address(family: int, address: int) -> bytes:
    """An address in network order."""
    return address.to_bytes(WIDTH[family], "big")


def list_addresses(sock: Socket, family: int = 0, index: int = 0) -> tuple[Address, ...]:
    """All addresses of the socket's namespace, of one family or (0) of both, of one interface or (0) of all."""
    families = (family,) if family else (socket.AF_INET, socket.AF_INET6)
    found = []
    for one in families:
        found += [_address(r.body) for r in sock.dump(Message(RTM_GETADDR, 0, _INFO.pack(one, 0, 0, 0, index)))]
    return tuple(one for one in found if index in {0, one.index})


def _address(body: memoryview) -> Address:
    family, prefix, flags, scope, index = codec.unpack_header(_INFO, body)
    found = codec.parse_attributes(body, _INFO.size)
    own = found.get(IFA_LOCAL, found.get(IFA_ADDRESS, b""))
    return Address(
        index=index,
        family=family,
        address=int.from_bytes(own, "big"),
        prefix=prefix,
        scope=scope,
        flags=codec.as_int(found.get(IFA_FLAGS), flags),
        label=codec.as_text(found.get(IFA_LABEL)),
    )


def _message(kind: int, flags: int, own: Address) -> Message:
    value = pack_address(own.family, own.address)
    parts = [
        _INFO.pack(own.family, own.prefix, 0, own.scope, own.index),
        codec.pack_attribute(IFA_LOCAL, value),
        codec.pack_attribute(IFA_ADDRESS, value),
    ]
    if own.flags:
        parts.append(codec.pack_u32(IFA_FLAGS, own.flags))
    if own.label:
        parts.append(codec.pack_string(IFA_LABEL, own.label))
    return Message(kind, flags, b"".join(parts))


def add_address(address: Address) -> Message:
    """Put an address on an interface; refused (EEXIST) if it is there."""
    return _message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, address)


def replace_address(address: Address) -> Message:
    """Put an address on an interface, or update its flags if it is there with this prefix length."""
    return _message(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, address)


def delete_address(address: Address) -> Message:
    """Take an address off an interface; refused (EADDRNOTAVAIL) unless prefix length and any label given agree."""
    return _message(RTM_DELADDR, 0, address)
