"""A router that joins the rails of emulated servers, with a gateway address on each rail (IPv4).

It stands in for the leaves and the spine above them: a leaf routes between its rail and the fabric, here in one hop.
It answers ARP requests (RFC 826) for the gateways and sends its own for hosts. A packet whose TTL expires or that
matches no rail is dropped (RFC 1812) without an ICMP error.
"""

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
"""Frames queued for a host while its MAC address is being resolved."""


@dataclass(frozen=True, slots=True)
class Gateway:
    """The router's address on one rail; addresses are integers, as in the plan."""

    address: int
    base: int
    prefix: int

    def covers(self, address: int) -> bool:
        """Return whether an address is in the rail's subnet."""
        return (address ^ self.base) >> (32 - self.prefix) == 0


def build_gateway_mac(rail: int) -> bytes:
    """Return the MAC address of a rail's gateways: locally administered, 02:54:42:fe:RAIL:01."""
    return bytes((2, 0x54, 0x42, 0xFE, rail, 1))


@dataclass(slots=True)
class Router:
    """The state of the router; `gateways` by rail, one for each subnet, neighbours and queued frames by address."""

    gateways: Sequence[Sequence[Gateway]]
    neighbours: dict[int, bytes] = field(default_factory=dict)
    waiting: dict[int, list[bytes]] = field(default_factory=dict)

    def handle_frame(self, rail: int, frame: bytes) -> Iterator[tuple[int, bytes]]:
        """Process a frame that arrived on a rail; yield the frames to send, each with its rail."""
        if len(frame) < _ETHERNET.size:
            return
        target, _, ethertype = _ETHERNET.unpack_from(frame)
        if ethertype == ARP and len(frame) >= _ETHERNET.size + _ARP.size:
            yield from self._handle_arp(rail, frame)
        elif ethertype == IPV4 and target == build_gateway_mac(rail):
            yield from self._forward_packet(frame)

    def _handle_arp(self, rail: int, frame: bytes) -> Iterator[tuple[int, bytes]]:
        *_, operation, sender_mac, sender_address, _, target_address = _ARP.unpack_from(frame, _ETHERNET.size)
        gateway = next((gateway for gateway in self.gateways[rail] if gateway.covers(sender_address)), None)
        if gateway is None:
            return
        if sender_address != gateway.address:
            self.neighbours[sender_address] = sender_mac
            for queued in self.waiting.pop(sender_address, ()):
                yield from self._forward_packet(queued)
        if operation == _REQUEST and target_address == gateway.address:
            sender = (build_gateway_mac(rail), gateway.address)
            yield rail, build_arp_frame(_REPLY, sender, (sender_mac, sender_address))

    def _forward_packet(self, frame: bytes) -> Iterator[tuple[int, bytes]]:
        packet = frame[_ETHERNET.size :]
        if len(packet) < _IP_HEADER or packet[8] <= 1:
            return
        address = int.from_bytes(packet[16:20], "big")
        rail, gateway = self._find_gateway(address)
        if gateway is None or address == gateway.address:
            return
        neighbour = self.neighbours.get(address)
        if neighbour is not None:
            yield rail, _ETHERNET.pack(neighbour, build_gateway_mac(rail), IPV4) + decrement_ttl(packet)
            return
        queue = self.waiting.setdefault(address, [])
        if len(queue) < _MAX_WAITING:
            queue.append(frame)
        yield rail, build_arp_frame(_REQUEST, (build_gateway_mac(rail), gateway.address), (bytes(6), address))

    def _find_gateway(self, address: int) -> tuple[int, Gateway | None]:
        """Return the rail and the gateway of an address's subnet."""
        for rail, gateways in enumerate(self.gateways):
            for gateway in gateways:
                if gateway.covers(address):
                    return rail, gateway
        return -1, None


def build_arp_frame(operation: int, sender: tuple[bytes, int], target: tuple[bytes, int]) -> bytes:
    """Return an ARP frame; sender and target are MAC and IPv4 address. A request is broadcast."""
    destination = _BROADCAST if operation == _REQUEST else target[0]
    return _ETHERNET.pack(destination, sender[0], ARP) + _ARP.pack(1, IPV4, 6, 4, operation, *sender, *target)


def decrement_ttl(packet: bytes) -> bytes:
    """Return an IPv4 packet with its TTL decremented and its checksum updated (RFC 1624)."""
    checksum = int.from_bytes(packet[10:12], "big") + 0x0100
    checksum = (checksum & 0xFFFF) + (checksum >> 16)
    return b"".join((packet[:8], bytes((packet[8] - 1,)), packet[9:10], checksum.to_bytes(2, "big"), packet[12:]))
