"""What joins the rails of emulated servers: a router with a gateway address on every rail (IPv4).

It stands for the leaves and the spine above them: a leaf routes between its hosts' rail and the fabric, here the fabric
is one step. ARP (RFC 826) is answered for the gateways and asked for hosts; a packet whose time to live ends, and one
for no rail, is dropped (RFC 1812; no ICMP errors are sent).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

ARP, IPV4 = 0x0806, 0x0800
_ETHERNET = struct.Struct("!6s6sH")
_ARP = struct.Struct("!HHBBH6sI6sI")
_REQUEST, _REPLY = 1, 2
_BROADCAST = b"\xff" * 6
_IP_HEADER = 20
_MAX_WAITING = 16
"""Packets kept for a host whose MAC address was asked for."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """The router's address on one rail: all numbers as in the plan."""

    address: int
    base: int
    prefix: int

    def covers(self, address: int) -> bool:
        """Whether an address lies in the rail's subnet."""
        return (address ^ self.base) >> (32 - self.prefix) == 0

    def build_mac(self, rail: int) -> bytes:
        """Locally administered, 02:54:42:fe:RAIL:01."""
        return bytes((2, 0x54, 0x42, 0xFE, rail, 1))


@dataclass(slots=True)
class Router:
    """One router; `gateways` by rail."""

    gateways: Sequence[Gateway]
    neighbours: dict[int, bytes] = field(default_factory=dict)
    waiting: dict[int, list[bytes]] = field(default_factory=dict)

    def handle(self, rail: int, frame: bytes) -> Iterator[tuple[int, bytes]]:
        """What the router says to a frame on a rail: frames and the rails that they go out on."""
        if len(frame) < _ETHERNET.size:
            return
        target, _, kind = _ETHERNET.unpack_from(frame)
        if kind == ARP and len(frame) >= _ETHERNET.size + _ARP.size:
            yield from self._arp(rail, frame)
        elif kind == IPV4 and target == self.gateways[rail].build_mac(rail):
            yield from self._forward(frame)

    def _arp(self, rail: int, frame: bytes) -> Iterator[tuple[int, bytes]]:
        *_, operation, sender, sender_ip, _, wanted = _ARP.unpack_from(frame, _ETHERNET.size)
        own = self.gateways[rail]
        if own.covers(sender_ip) and sender_ip != own.address:
            self.neighbours[sender_ip] = sender
            for kept in self.waiting.pop(sender_ip, ()):
                yield from self._forward(kept)
        if operation == _REQUEST and wanted == own.address:
            yield rail, build_arp_frame(_REPLY, (own.build_mac(rail), own.address), (sender, sender_ip))

    def _forward(self, frame: bytes) -> Iterator[tuple[int, bytes]]:
        packet = frame[_ETHERNET.size :]
        if len(packet) < _IP_HEADER or packet[8] <= 1:
            return
        address = int.from_bytes(packet[16:20], "big")
        rail = next((rail for rail, one in enumerate(self.gateways) if one.covers(address)), None)
        if rail is None or address == self.gateways[rail].address:
            return
        own, known = self.gateways[rail], self.neighbours.get(address)
        if known is not None:
            yield rail, _ETHERNET.pack(known, own.build_mac(rail), IPV4) + decrement_ttl(packet)
            return
        kept = self.waiting.setdefault(address, [])
        if len(kept) < _MAX_WAITING:
            kept.append(frame)
        yield rail, build_arp_frame(_REQUEST, (own.build_mac(rail), own.address), (bytes(6), address))


def build_arp_frame(operation: int, sender: tuple[bytes, int], target: tuple[bytes, int]) -> bytes:
    """An ARP frame; a request goes to everybody."""
    to = _BROADCAST if operation == _REQUEST else target[0]
    return _ETHERNET.pack(to, sender[0], ARP) + _ARP.pack(1, IPV4, 6, 4, operation, *sender, *target)


def decrement_ttl(packet: bytes) -> bytes:
    """An IPv4 packet with a smaller time to live, its checksum adjusted (RFC 1624)."""
    checksum = int.from_bytes(packet[10:12], "big") + 0x0100
    checksum = (checksum & 0xFFFF) + (checksum >> 16)
    return b"".join((packet[:8], bytes((packet[8] - 1,)), packet[9:10], checksum.to_bytes(2, "big"), packet[12:]))
