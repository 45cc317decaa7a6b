"""Address ranges as plain integers.

A plan of 100,000 ports is arithmetic on ints: `ipaddress` objects cost about 25 times as much.
Text is parsed once on the way in (here) and written once on the way out (`text`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

V4, V6 = 4, 6
"""The IP versions."""

BITS = {V4: 32, V6: 128}
"""Width of an address of each IP version."""


class Range(NamedTuple):
    """A CIDR range: IP version (4 or 6), first address, prefix length."""

    version: int
    base: int
    prefix: int

    @property
    def size(self) -> int:
        """How many addresses the range holds, first and last included."""
        return 1 << (BITS[self.version] - self.prefix)

    @property
    def last(self) -> int:
        """The highest address (the broadcast address of an IPv4 subnet)."""
        return self.base + self.size - 1

    def __contains__(self, address: int) -> bool:  # type: ignore[override] # holds addresses, not its fields
        return self.base <= address <= self.last

    def overlaps(self, other: Range) -> bool:
        """Whether any address lies in both; never true across IP versions."""
        return self.version == other.version and self.base <= other.last and other.base <= self.last

    def subnet(self, index: int, prefix: int) -> Range:
        """The `index`-th range of length `prefix` inside this one; IndexError past the end."""
        count = 1 << (prefix - self.prefix)
        if not 0 <= index < count:
            msg = f"{self} has {count} ranges of /{prefix}, none is number {index}"
            raise IndexError(msg)
        return Range(self.version, self.base + index * (1 << (BITS[self.version] - prefix)), prefix)

    def __str__(self) -> str:
        return f"{text(self.version, self.base)}/{self.prefix}"

    @staticmethod
    def from_text(value: str) -> Range:
        """Parse `address/prefix` as `parse_range` does."""
        return parse_range(value)


def text(version: int, address: int) -> str:
    """Write an address: dotted for IPv4, RFC 5952 for IPv6."""
    if version == V4:
        return f"{address >> 24}.{address >> 16 & 255}.{address >> 8 & 255}.{address & 255}"
    low = address & 0xFFFF
    return f"{_head6(address >> 16)}{low:x}" if low else _text6(address)


@lru_cache(maxsize=1 << 16)
def _head6(high: int) -> str:
    """The text of an address whose last group is not zero, without that group: ports of one rail share it."""
    return _text6(high << 16 | 1)[:-1]


def _text6(address: int) -> str:
    """RFC 5952: lower case, no leading zeros, the first of the longest runs of two or more zero groups as `::`."""
    groups = [f"{address >> shift & 0xFFFF:x}" for shift in range(112, -16, -16)]
    best = max((_zeros(groups, start), -start) for start in range(8))
    if best[0] < 2:  # noqa: PLR2004 - a single zero group is written out (RFC 5952, 4.2.2)
        return ":".join(groups)
    start = -best[1]
    return f"{':'.join(groups[:start])}::{':'.join(groups[start + best[0] :])}"


def _zeros(groups: list[str], start: int) -> int:
    end = start
    while end < len(groups) and groups[end] == "0":
        end += 1
    return end - start


@lru_cache(maxsize=1 << 16)
def parse_address(value: str) -> tuple[int, int]:
    """Read an address into (IP version, int); ValueError if it is none."""
    import ipaddress  # noqa: PLC0415 - formatting needs none, and most plans only format

    parsed = ipaddress.ip_address(value)
    return parsed.version, int(parsed)


def parse_range(value: str) -> Range:
    """Read `address/prefix`; ValueError on anything else, host bits included (`host bits:` then the right text)."""
    head, slash, tail = value.partition("/")
    if not slash or not tail.isascii() or not tail.isdigit():
        msg = "no prefix length"
        raise ValueError(msg)
    version, address = parse_address(head)
    bits, prefix = BITS[version], int(tail)
    if prefix > bits:
        msg = f"prefix /{prefix} is longer than /{bits}"
        raise ValueError(msg)
    base = address >> (bits - prefix) << (bits - prefix)
    if base != address:
        msg = f"host bits:{Range(version, base, prefix)}"
        raise ValueError(msg)
    return Range(version, base, prefix)


def cover(ranges: list[Range]) -> Range:
    """The smallest range that holds all of `ranges` (one IP version, at least one)."""
    low, high = min(r.base for r in ranges), max(r.last for r in ranges)
    bits = BITS[ranges[0].version]
    free = (low ^ high).bit_length()
    return Range(ranges[0].version, low >> free << free, bits - free)
