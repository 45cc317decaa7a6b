"""Address ranges as plain integers.

A plan of 100,000 ports is arithmetic on ints: `ipaddress` objects are about 25 times as slow. Text is parsed once on
input (here) and formatted once on output (`format_address`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

V4, V6 = 4, 6
"""The IP versions."""

BITS = {V4: 32, V6: 128}
"""Bits of an address of each IP version."""


class Range(NamedTuple):
    """A CIDR range: IP version (4 or 6), first address, prefix length."""

    version: int
    base: int
    prefix: int

    @property
    def size(self) -> int:
        """Number of addresses in the range, first and last included."""
        return 1 << (BITS[self.version] - self.prefix)

    @property
    def last(self) -> int:
        """The highest address (the broadcast address of an IPv4 subnet)."""
        return self.base + self.size - 1

    def __contains__(self, address: int) -> bool:  # type: ignore[override] # holds addresses, not its fields
        return self.base <= address <= self.last

    def overlaps(self, other: Range) -> bool:
        """Return whether any address is in both ranges; never across IP versions."""
        return self.version == other.version and self.base <= other.last and other.base <= self.last

    def get_subnet(self, index: int, prefix: int) -> Range:
        """Return the subnet number `index` with length `prefix` in this range; IndexError past the end."""
        count = 1 << (prefix - self.prefix)
        if not 0 <= index < count:
            raise IndexError(f"{self} has {count} ranges of /{prefix}, none is number {index}")
        return Range(self.version, self.base + index * (1 << (BITS[self.version] - prefix)), prefix)

    def __str__(self) -> str:
        return f"{format_address(self.version, self.base)}/{self.prefix}"

    @staticmethod
    def from_text(value: str) -> Range:
        """Parse `address/prefix` as `parse_range` does."""
        return parse_range(value)


def format_address(ip_version: int, address: int) -> str:
    """Return the text of an address: dotted quad for IPv4, RFC 5952 for IPv6."""
    if ip_version == V4:
        return f"{address >> 24}.{address >> 16 & 255}.{address >> 8 & 255}.{address & 255}"
    low = address & 0xFFFF
    return f"{_format_ipv6_prefix(address >> 16)}{low:x}" if low else _format_ipv6(address)


@lru_cache(maxsize=1 << 16)
def _format_ipv6_prefix(high: int) -> str:
    """Return the text of the upper 112 bits, up to the last colon; it is cached, since the ports of a rail share it.

    The last group of the address must not be zero.
    """
    return _format_ipv6(high << 16 | 1)[:-1]


def _format_ipv6(address: int) -> str:
    """Format as RFC 5952: lower case, no leading zeros, the first of the longest runs of zero groups as `::`."""
    groups = [f"{address >> shift & 0xFFFF:x}" for shift in range(112, -16, -16)]
    longest = max((_count_zero_groups(groups, start), -start) for start in range(8))
    if longest[0] < 2:  # noqa: PLR2004 - a single zero group is written out (RFC 5952, 4.2.2)
        return ":".join(groups)
    start = -longest[1]
    return f"{':'.join(groups[:start])}::{':'.join(groups[start + longest[0] :])}"


def _count_zero_groups(groups: list[str], start: int) -> int:
    end = start
    while end < len(groups) and groups[end] == "0":
        end += 1
    return end - start


LONGEST_TEXT = 80
"""Characters of the longest text that is parsed as an address or range, since hostile ones would fill the caches.

An IPv6 address with an embedded IPv4 address has 45, with an interface 61, and a prefix length adds 4.
"""
_OCTETS = {str(octet): octet for octet in range(256)}
"""Octets by their text. Four look-ups take a fifth of the time of `ipaddress`, and a plan has 200,000 addresses."""


def parse_address(value: str) -> tuple[int, int]:
    """Parse an address into (IP version, int); ValueError if it is malformed."""
    try:
        first, second, third, fourth = value.split(".")
        address = _OCTETS[first] << 24 | _OCTETS[second] << 16 | _OCTETS[third] << 8 | _OCTETS[fourth]
    except (KeyError, ValueError):
        if len(value) > LONGEST_TEXT:
            raise ValueError(f"{value[:LONGEST_TEXT]!r}... is too long for an IP address") from None
        return _parse_with_ipaddress(value)
    return V4, address


@lru_cache(maxsize=1 << 16)
def _parse_with_ipaddress(value: str) -> tuple[int, int]:
    """Parse an IPv6 address; for malformed text, raise the ValueError of `ipaddress`."""
    import ipaddress  # noqa: PLC0415 - IPv4 addresses are parsed without it

    address = ipaddress.ip_address(value)
    return address.version, int(address)


def parse_range(value: str) -> Range:
    """Parse `address/prefix`; ValueError if it is malformed.

    For host bits, the error text is `host bits:` and the correct range.
    """
    address_text, slash, prefix_text = value.partition("/")
    if not slash or not prefix_text.isascii() or not prefix_text.isdigit():
        raise ValueError("no prefix length")
    ip_version, address = parse_address(address_text)
    bits, prefix = BITS[ip_version], int(prefix_text)
    if prefix > bits:
        raise ValueError(f"prefix /{prefix} is longer than /{bits}")
    base = address >> (bits - prefix) << (bits - prefix)
    if base != address:
        raise ValueError(f"host bits:{Range(ip_version, base, prefix)}")
    return Range(ip_version, base, prefix)


def cover(ranges: list[Range]) -> Range:
    """Return the smallest range that contains all of `ranges` (of one IP version, at least one)."""
    low, high = min(member.base for member in ranges), max(member.last for member in ranges)
    bits = BITS[ranges[0].version]
    free = (low ^ high).bit_length()
    return Range(ranges[0].version, low >> free << free, bits - free)
