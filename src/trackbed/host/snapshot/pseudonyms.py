"""Pseudonyms of addresses and identifiers: the structure stays, the identity goes.

    MAC        b8:3f:d2:12:34:56 -> b8:3f:d2:9c:e1:56   vendor and last byte stay, so ports of a card stay neighbours
    GUID, GID  the last three bytes are those of the MAC that they were made of
    IPv4       10.8.3.17 -> 10.201.77.17   what shares a /8, /16 or /24 still does; 0, 255 and the last byte stay
    IPv6       fd00:a:b::17 -> fd00:9c1:3d0::17   group by group, likewise
    others     UUIDs, machine ids, container ids: equal ones stay equal

A pseudonym depends on a key that is drawn for each capture and never written, so no list of addresses can be tried.
"""

from __future__ import annotations

from hashlib import blake2b
from ipaddress import IPv4Address, IPv6Address
from math import gcd

_MULTICAST, _LOCAL = 0x01, 0x02
"""Bits of the first byte of a MAC address (IEEE 802-2014, 8.2.2)."""
_MADE_OF_MAC = {b"\xff\xfe", b"\x03\x00", b"\x00\x03"}
"""Bytes 3 and 4 of an EUI-64 that was made of a MAC: RFC 4291 appendix A, and NVIDIA's GUIDs."""
_SPECIAL_NETWORKS = (0, 127, 169)
"""First bytes of addresses that are the same everywhere: 0.0.0.0/8, loopback, link-local."""
_MULTICAST_V4 = 224
"""First byte from which on addresses are multicast, reserved, or masks."""
_PUBLIC = 198
"""First byte of the pseudonym of every public address."""
_BYTE, _GROUP = 0xFF, 0xFFFF


class Pseudonyms:
    """Replaces values; equal values get equal pseudonyms."""

    def __init__(self, key: bytes) -> None:
        """Take the key of one capture: 16 random bytes."""
        self._key = key

    def replace_mac(self, mac: bytes) -> bytes:
        """Replace the part of a MAC address that the vendor numbers; multicast and zero addresses stay."""
        return mac if mac[0] & _MULTICAST or not any(mac) else mac[:3] + self._replace_tail(mac[:3], mac[3:])

    def replace_guid(self, guid: bytes) -> bytes:
        """Replace the part of an EUI-64 that the vendor numbers; zero stays."""
        if not any(guid):
            return guid
        if guid[3:5] in _MADE_OF_MAC:
            return guid[:5] + self._replace_tail(guid[:3], guid[5:])
        return guid[:3] + self.replace_bytes(guid[:7])[:4] + guid[7:]

    def replace_ipv4(self, address: IPv4Address) -> IPv4Address:
        """Replace the second and the third byte, and the first one of a public address."""
        first, second, third, last = address.packed
        if first in _SPECIAL_NETWORKS or first >= _MULTICAST_V4:
            return address
        new_first = first if address.is_private else _PUBLIC
        new_second = second if (first, second) == (192, 168) else self._permute(bytes((first,)), second, _BYTE)
        new_third = self._permute(bytes((first, second)), third, _BYTE)
        return IPv4Address(bytes((new_first, new_second, new_third, last)))

    def replace_ipv6(self, address: IPv6Address) -> IPv6Address:
        """Replace groups 1 to 6 of an address, or the MAC or the IPv4 address that is in it."""
        if address.is_loopback or address.is_unspecified or address.is_multicast:
            return address
        raw = address.packed
        if address.ipv4_mapped is not None:
            return IPv6Address(raw[:12] + self.replace_ipv4(address.ipv4_mapped).packed)
        network = raw[:8] if address.is_link_local else raw[:2] + self._replace_groups(raw, 1, 4)
        has_guid = raw[11:13] in _MADE_OF_MAC or (address.is_link_local and any(raw[8:10]))
        return IPv6Address(
            network + (self.replace_guid(raw[8:]) if has_guid else self._replace_groups(raw, 4, 7) + raw[14:])
        )

    def replace_bytes(self, value: bytes) -> bytes:
        """Replace an identifier without structure by one of its length, at most 32 bytes; zero stays."""
        return value if not any(value) else self._hash(b"id", value)[: len(value)]

    def _replace_groups(self, raw: bytes, begin: int, end: int) -> bytes:
        """Replace the groups of an IPv6 address from number `begin` up to, not including, `end`."""
        numbers = [(raw[: 2 * at], int.from_bytes(raw[2 * at : 2 * at + 2], "big")) for at in range(begin, end)]
        return b"".join(self._permute(before, number, _GROUP).to_bytes(2, "big") for before, number in numbers)

    def _replace_tail(self, vendor: bytes, tail: bytes) -> bytes:
        """Replace two of the last three bytes, regardless of the bit "local", which an IPv6 address inverts."""
        if tail in {b"\0\0\0", b"\xff\xff\xff"}:
            return tail
        return self._hash(b"mac", bytes((vendor[0] & ~_LOCAL,)) + vendor[1:] + tail[:2])[:2] + tail[2:]

    def _permute(self, context: bytes, number: int, highest: int) -> int:
        """Return a number of another value; 0 and the highest stay. Within one context no two numbers get the same."""
        size = highest - 1
        order = int.from_bytes(self._hash(b"permute", context)[:8], "big")
        factor = order % size | 1
        while gcd(factor, size) != 1:
            factor += 2
        return number if number in {0, highest} else ((number - 1) * factor + (order >> 32) % size) % size + 1

    def _hash(self, kind: bytes, value: bytes) -> bytes:
        return blake2b(value, key=self._key, person=kind, digest_size=32).digest()
