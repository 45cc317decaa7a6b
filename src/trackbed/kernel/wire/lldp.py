"""Neighbours at the other end of the cable by LLDP (IEEE 802.1AB-2016): encode, decode, send and receive.

A frame is a list of TLVs: 7 bits of type, 9 bits of length, the value. Chassis id, port id and time to live come first,
in that order; all others are optional. Received frames are untrusted.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from ipaddress import ip_address

from trackbed.kernel.wire.errors import MalformedFrame
from trackbed.kernel.wire.netns_sockets import Netns
from trackbed.kernel.wire.packets import Frame, open_packets, receive_frames_until

NEAREST_BRIDGE = bytes.fromhex("0180c200000e")  # 802.1AB, table 7-1: no bridge forwards it

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


@dataclass(frozen=True)
class Advertisement:
    """Content of a frame. Ids are in their usual text form: a MAC with colons, an address, or a name."""

    chassis_id: str
    port_id: str
    ttl_seconds: int = 120
    system_name: str | None = None
    port_description: str | None = None
    port_vlan: int | None = None
    """VLAN of untagged frames; 0 means that the port has none."""


@dataclass(frozen=True)
class Discovery:
    """Neighbours by interface; an interface without frames is in neither mapping."""

    neighbours: dict[int, Advertisement]
    malformed: dict[int, str]
    """Decoding errors, for interfaces that received no valid frame."""


def encode(advertisement: Advertisement) -> bytes:
    """Return the LLDP data unit; the chassis id is sent as locally assigned, the port id as an interface name.

    Raises:
        ValueError: an id is empty or longer than 255 bytes, a text longer than 511, or a number out of range.
    """
    tlvs = [
        _pack_tlv(_CHASSIS_ID, _pack_id(_LOCAL_CHASSIS, advertisement.chassis_id)),
        _pack_tlv(_PORT_ID, _pack_id(_INTERFACE_NAME, advertisement.port_id)),
        _pack_tlv(_TIME_TO_LIVE, _pack_u16(advertisement.ttl_seconds, 0xFFFF)),
    ]
    if advertisement.port_description is not None:
        tlvs.append(_pack_tlv(_PORT_DESCRIPTION, advertisement.port_description.encode()))
    if advertisement.system_name is not None:
        tlvs.append(_pack_tlv(_SYSTEM_NAME, advertisement.system_name.encode()))
    if advertisement.port_vlan is not None:
        tlvs.append(_pack_tlv(_ORGANISATION, _PORT_VLAN_ID + _pack_u16(advertisement.port_vlan, 4094)))
    return b"".join((*tlvs, _pack_tlv(_END, b"")))


def decode(payload: bytes) -> Advertisement:
    """Parse an LLDP data unit; unknown TLVs are skipped, the first of two equal ones is used.

    Raises:
        MalformedFrame: a mandatory TLV is missing or misplaced, or a TLV is longer than the frame.
    """
    tlvs = tuple(_iter_tlvs(payload))
    if [tlv_type for tlv_type, _ in tlvs[:3]] != [_CHASSIS_ID, _PORT_ID, _TIME_TO_LIVE]:
        raise MalformedFrame("an LLDP frame begins with chassis id, port id and time to live; this one does not")
    values: dict[int, bytes] = {}
    for tlv_type, value in tlvs[3:]:
        if tlv_type != _ORGANISATION:
            values.setdefault(tlv_type, value)
    vlans = [value[4:] for tlv_type, value in tlvs if tlv_type == _ORGANISATION and value[:4] == _PORT_VLAN_ID]
    return Advertisement(
        chassis_id=_parse_id_tlv(_CHASSIS_ID, tlvs[0][1]),
        port_id=_parse_id_tlv(_PORT_ID, tlvs[1][1]),
        ttl_seconds=_parse_number(tlvs[2][1], "time to live"),
        system_name=_parse_optional_text(values.get(_SYSTEM_NAME)),
        port_description=_parse_optional_text(values.get(_PORT_DESCRIPTION)),
        port_vlan=_parse_number(vlans[0], "port VLAN id") if vlans else None,
    )


def subscribe(netns: Netns, ifindexes: Collection[int]) -> socket.socket:
    """Open a socket that queues LLDP frames of these interfaces from now on; the caller closes it.

    Raises:
        NotPermitted: the process lacks CAP_NET_RAW.
        OSError: an interface has gone (ENODEV).
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
    """Read a subscribed socket until each interface has received a valid frame, at most `timeout_seconds`."""
    discovery = Discovery({}, {})
    for frame in receive_frames_until(packets, timeout_seconds):
        if frame.ifindex in ifindexes and frame.ifindex not in discovery.neighbours:
            _record_frame(frame, discovery)
        if len(discovery.neighbours) == len(set(ifindexes)):
            break
    return discovery


def listen(netns: Netns, ifindexes: Collection[int], timeout_seconds: float) -> Discovery:
    """Listen for LLDP frames: subscribe, collect, and close the socket.

    Stations send every 30 seconds by default (802.1AB, 9.2.5.7): wait a little longer than that.

    Raises:
        NotPermitted: the process lacks CAP_NET_RAW.
        OSError: an interface has gone (ENODEV).
    """
    with subscribe(netns, ifindexes) as packets:
        return collect(packets, ifindexes, timeout_seconds)


def _record_frame(frame: Frame, discovery: Discovery) -> None:
    try:
        discovery.neighbours[frame.ifindex] = decode(frame.payload)
        discovery.malformed.pop(frame.ifindex, None)
    except MalformedFrame as error:
        discovery.malformed[frame.ifindex] = str(error)


def _pack_tlv(tlv_type: int, value: bytes) -> bytes:
    if len(value) > _VALUE_BYTES:
        raise ValueError(f"an LLDP value has at most {_VALUE_BYTES} bytes, this one {len(value)}")
    return struct.pack("!H", tlv_type << 9 | len(value)) + value


def _pack_id(subtype: int, name: str) -> bytes:
    value = name.encode()
    if not 1 <= len(value) <= _ID_BYTES:
        raise ValueError(f"an LLDP id has 1 to {_ID_BYTES} bytes, {name!r} has {len(value)}")
    return bytes([subtype]) + value


def _pack_u16(number: int, largest: int) -> bytes:
    if not 0 <= number <= largest:
        raise ValueError(f"{number} is outside 0-{largest}")
    return number.to_bytes(2, "big")


def _iter_tlvs(payload: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset + 2 <= len(payload):
        header = int.from_bytes(payload[offset : offset + 2], "big")
        tlv_type, length = header >> 9, header & _VALUE_BYTES
        if tlv_type == _END:  # Ethernet padding follows
            return
        value = payload[offset + 2 : offset + 2 + length]
        if len(value) < length:
            raise MalformedFrame(f"the LLDP TLV at byte {offset} has length {length}, the frame has {len(value)} left")
        yield tlv_type, value
        offset += 2 + length


def _parse_id_tlv(tlv_type: int, value: bytes) -> str:
    if len(value) < 2:  # noqa: PLR2004 - a subtype and at least one byte of id
        raise MalformedFrame("an LLDP id has a subtype and at least one byte")
    subtype, name = value[0], value[1:]
    if subtype == _MAC_SUBTYPE[tlv_type] and len(name) == _MAC_BYTES:
        return name.hex(":")
    if subtype == _ADDRESS_SUBTYPE[tlv_type] and _ADDRESS_BYTES.get(name[0]) == len(name) - 1:
        return str(ip_address(name[1:]))
    return _escape_text(name)


def _parse_number(value: bytes, label: str) -> int:
    if len(value) < 2:  # noqa: PLR2004 - both numbers that we read have two bytes
        raise MalformedFrame(f"the {label} of an LLDP frame has two bytes, this one {len(value)}")
    return int.from_bytes(value[:2], "big")


def _parse_optional_text(value: bytes | None) -> str | None:
    return None if value is None else _escape_text(value)


def _escape_text(value: bytes) -> str:
    """Decode a name for display, with control characters escaped: the sender must not control our terminal."""
    text = value.rstrip(b"\0").decode(errors="backslashreplace")
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )
