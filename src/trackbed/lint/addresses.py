"""Addresses and ranges as they are written in manifests."""

from __future__ import annotations

from typing import NamedTuple

from trackbed.fabric.model.ranges import BITS, V4, Range, format_address, parse_address, parse_range


class Span(NamedTuple):
    """Addresses from `first` to `last`, both included."""

    version: int
    first: int
    last: int

    def overlaps(self, other: Span) -> bool:
        """Return whether the spans share an address."""
        return self.version == other.version and self.first <= other.last and other.first <= self.last

    def __str__(self) -> str:
        first = format_address(self.version, self.first)
        return first if self.first == self.last else f"{first}-{format_address(self.version, self.last)}"


class Cidr(NamedTuple):
    """A range without host bits, and whether it was written with any."""

    range: Range
    has_host_bits: bool


def read_cidr(value: object) -> Cidr | None:
    """Parse `address/prefix length`; return None for any other value."""
    if not isinstance(value, str):
        return None
    try:
        return Cidr(parse_range(value.strip()), has_host_bits=False)
    except ValueError as error:
        mark, _, right = str(error).partition("host bits:")
        return Cidr(parse_range(right), has_host_bits=True) if right and not mark else None


def read_address(value: object) -> tuple[int, int] | None:
    """Parse an address to (IP version, int); return None for any other value."""
    if not isinstance(value, str):
        return None
    try:
        return parse_address(value.strip())
    except ValueError:
        return None


def read_span(value: object) -> Span | None:
    """Parse `address` or `first-last`; return None for any other value and for a range that ends before it starts."""
    if not isinstance(value, str):
        return None
    head, dash, tail = value.partition("-")
    first = read_address(head)
    last = read_address(tail) if dash else first
    if first is None or last is None or first[0] != last[0] or first[1] > last[1]:
        return None
    return Span(first[0], first[1], last[1])


def to_span(addresses: Range) -> Span:
    """Return all addresses of a range."""
    return Span(addresses.version, addresses.base, addresses.last)


def to_usable_span(addresses: Range) -> Span:
    """Return the addresses that hosts may have.

    IPv4 excludes the first and the last address, except in a /31 (RFC 3021) and a /32.
    """
    if addresses.version == V4 and addresses.prefix < BITS[V4] - 1:
        return Span(V4, addresses.base + 1, addresses.last - 1)
    return to_span(addresses)


def is_within(inner: Span, outer: Range) -> bool:
    """Return whether all addresses of `inner` are in `outer`."""
    return inner.version == outer.version and outer.base <= inner.first and inner.last <= outer.last


def is_in(address: tuple[int, int], outer: Range) -> bool:
    """Return whether an (IP version, int) is in a range."""
    return address[0] == outer.version and address[1] in outer


def render_address(address: tuple[int, int]) -> str:
    """Return the text of an (IP version, int)."""
    return format_address(*address)
