"""What is at the other end of the cable: LLDP (IEEE 802.1AB-2016), encoded, decoded, sent and listened for.

A frame is a list of TLVs: 7 bits of type, 9 bits of length, the value. Chassis id, port id and time to live come first,
in that order; the rest is optional. Everything received is hostile until it has been read to the end.
"""

import socket
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from trackbed.kernel.wire.errors import MalformedFrame
from trackbed.kernel.wire.netns_sockets import Netns
from trackbed.kernel.wire.packets import Frame, open_packets, receive_until, send_frame

NEAREST_BRIDGE = bytes.fromhex("0180c200000e")  # 802.1AB, table 7-1: no bridge passes it on

_ETHERTYPE = 0x88CC
_END, _CHASSIS_ID, _PORT_ID, _TIME_TO_LIVE, _PORT_DESCRIPTION, _SYSTEM_NAME = range(6)
_ORGANISATION = 127
_PORT_VLAN_ID = bytes.fromhex("0080c201")  # 802.1Q, annex D: the OUI of IEEE 802.1, subtype 1
_LOCAL_CHASSIS, _INTERFACE_NAME = 7, 5  # subtypes of chassis id and of port id
_MAC_SUBTYPE = {_CHASSIS_ID: 4, _PORT_ID: 3}
_ADDRESS_SUBTYPE = {_CHASSIS_ID: 5, _PORT_ID: 4}
_ADDRESS_BYTES = {1: 4, 2: 16}  # IANA address family numbers: IPv4, IPv6
_MAC_BYTES = 6
_VALUE_BYTES = 511  # nine bits of length
_ID_BYTES = 255  # 802.1AB, 8.5.2.3

_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, _PACKET_MR_MULTICAST = 263, 1, 0  # include/uapi/linux/if_packet.h


@dataclass(frozen=True, slots=True)
class Advertisement:
    """What a station says of itself. Ids are as a human writes them: a MAC with colons, an address, or a name."""

    chassis_id: str
    port_id: str
    ttl_seconds: int = 120
    system_name: str | None = None
    port_description: str | None = None
    port_vlan: int | None = None
    """The VLAN of untagged frames; 0 says that the port has none."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """The first frame heard on each interface; interfaces that heard none are in neither mapping."""

    neighbours: dict[int, Advertisement]
    malformed: dict[int, str]
    """Why a frame could not be read, where none could."""


def encode(advertisement: Advertisement) -> bytes:
    """Return the LLDP data unit; a chassis id is sent as locally assigned, a port id as an interface name.

    Raises:
        ValueError: an id is empty or over 255 bytes, a text over 511, or a number out of range.
    """
    units = [
        _tlv(_CHASSIS_ID, _identified(_LOCAL_CHASSIS, advertisement.chassis_id)),
        _tlv(_PORT_ID, _identified(_INTERFACE_NAME, advertisement.port_id)),
        _tlv(_TIME_TO_LIVE, _short(advertisement.ttl_seconds, 0xFFFF)),
    ]
    if advertisement.port_description is not None:
        units.append(_tlv(_PORT_DESCRIPTION, advertisement.port_description.encode()))
    if advertisement.system_name is not None:
        units.append(_tlv(_SYSTEM_NAME, advertisement.system_name.encode()))
    if advertisement.port_vlan is not None:
        units.append(_tlv(_ORGANISATION, _PORT_VLAN_ID + _short(advertisement.port_vlan, 4094)))
    return b"".join((*units, _tlv(_END, b"")))


def decode(payload: bytes) -> Advertisement:
    """Read an LLDP data unit; TLVs that we do not use are skipped, the first of two equal ones counts.

    Raises:
        MalformedFrame: a mandatory TLV is missing or out of place, or a TLV is longer than the frame.
    """
    units = tuple(_tlvs(payload))
    if [kind for kind, _ in units[:3]] != [_CHASSIS_ID, _PORT_ID, _TIME_TO_LIVE]:
        raise MalformedFrame("an LLDP frame begins with chassis id, port id and time to live; this one does not")
    found: dict[int, bytes] = {}
    for kind, value in units[3:]:
        if kind != _ORGANISATION:
            found.setdefault(kind, value)
    vlans = [value[4:] for kind, value in units if kind == _ORGANISATION and value[:4] == _PORT_VLAN_ID]
    return Advertisement(
        chassis_id=_id(_CHASSIS_ID, units[0][1]),
        port_id=_id(_PORT_ID, units[1][1]),
        ttl_seconds=_number(units[2][1], "time to live"),
        system_name=_optional_text(found.get(_SYSTEM_NAME)),
        port_description=_optional_text(found.get(_PORT_DESCRIPTION)),
        port_vlan=_number(vlans[0], "port VLAN id") if vlans else None,
    )


def announce(netns: Netns, advertisements: Mapping[int, Advertisement]) -> None:
    """Send one frame on each interface (by ifindex).

    Raises:
        NotPermitted: the process lacks CAP_NET_RAW.
        OSError: an interface is gone (ENODEV) or down (ENETDOWN).
    """
    with open_packets(netns, _ETHERTYPE) as packets:
        for ifindex, advertisement in advertisements.items():
            send_frame(packets, ifindex, _ETHERTYPE, NEAREST_BRIDGE, encode(advertisement))


def subscribe(netns: Netns, ifindexes: Collection[int]) -> socket.socket:
    """Open a socket that gathers LLDP frames of these interfaces from now on; the caller closes it.

    Raises:
        NotPermitted: the process lacks CAP_NET_RAW.
        OSError: an interface is gone (ENODEV).
    """
    packets = open_packets(netns, _ETHERTYPE)
    try:
        for ifindex in ifindexes:
            membership = struct.pack("iHH8s", ifindex, _PACKET_MR_MULTICAST, len(NEAREST_BRIDGE), NEAREST_BRIDGE)
            packets.setsockopt(_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, membership)
    except OSError:
        packets.close()
        raise
    return packets


def collect(packets: socket.socket, ifindexes: Collection[int], timeout_seconds: float) -> Discovery:
    """Listen on a subscribed socket until each interface has heard a readable frame, at most `timeout_seconds`."""
    heard = Discovery({}, {})
    for frame in receive_until(packets, timeout_seconds):
        if frame.ifindex in ifindexes and frame.ifindex not in heard.neighbours:
            _note(frame, heard)
        if len(heard.neighbours) == len(set(ifindexes)):
            break
    return heard


def listen(netns: Netns, ifindexes: Collection[int], timeout_seconds: float) -> Discovery:
    """Subscribe, hear and close.

    A station speaks every 30 seconds by default (802.1AB, 9.2.5.7): wait a little longer than that.

    Raises:
        NotPermitted: the process lacks CAP_NET_RAW.
        OSError: an interface is gone (ENODEV).
    """
    with subscribe(netns, ifindexes) as packets:
        return collect(packets, ifindexes, timeout_seconds)


def _note(frame: Frame, heard: Discovery) -> None:
    try:
        heard.neighbours[frame.ifindex] = decode(frame.payload)
        heard.malformed.pop(frame.ifindex, None)
    except MalformedFrame as error:
        heard.malformed[frame.ifindex] = str(error)


def _tlv(kind: int, value: bytes) -> bytes:
    if len(value) > _VALUE_BYTES:
        raise ValueError(f"an LLDP value has at most {_VALUE_BYTES} bytes, this one {len(value)}")
    return struct.pack("!H", kind << 9 | len(value)) + value


def _identified(subtype: int, name: str) -> bytes:
    value = name.encode()
    if not 1 <= len(value) <= _ID_BYTES:
        raise ValueError(f"an LLDP id has 1 to {_ID_BYTES} bytes, {name!r} has {len(value)}")
    return bytes([subtype]) + value


def _short(number: int, largest: int) -> bytes:
    if not 0 <= number <= largest:
        raise ValueError(f"{number} is outside 0-{largest}")
    return number.to_bytes(2, "big")


def _tlvs(payload: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 2 <= len(payload):
        head = int.from_bytes(payload[at : at + 2], "big")
        kind, length = head >> 9, head & _VALUE_BYTES
        if kind == _END:  # what follows is Ethernet's padding
            return
        value = payload[at + 2 : at + 2 + length]
        if len(value) < length:
            raise MalformedFrame(f"the LLDP TLV at byte {at} says {length} bytes, the frame has {len(value)} left")
        yield kind, value
        at += 2 + length


def _id(kind: int, value: bytes) -> str:
    if len(value) < 2:  # noqa: PLR2004 - a subtype and at least one byte of id
        raise MalformedFrame("an LLDP id has a subtype and at least one byte")
    subtype, name = value[0], value[1:]
    if subtype == _MAC_SUBTYPE[kind] and len(name) == _MAC_BYTES:
        return name.hex(":")
    if subtype == _ADDRESS_SUBTYPE[kind] and _ADDRESS_BYTES.get(name[0]) == len(name) - 1:
        return str(ip_address(name[1:]))
    return _text(name)


def _number(value: bytes, what: str) -> int:
    if len(value) < 2:  # noqa: PLR2004 - both numbers that we read have two bytes
        raise MalformedFrame(f"the {what} of an LLDP frame has two bytes, this one {len(value)}")
    return int.from_bytes(value[:2], "big")


def _optional_text(value: bytes | None) -> str | None:
    return None if value is None else _text(value)


def _text(value: bytes) -> str:
    """Decode a name for showing: whoever sends it must not be able to write escape sequences to our terminal."""
    shown = value.rstrip(b"\0").decode(errors="backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
