"""Addresses and ranges as they are written in manifests."""

from __future__ import annotations

from typing import NamedTuple

from trackbed.fabric.model.ranges import BITS, V4, Range, format_address, parse_address, parse_range

IpAddress = tuple[int, int]
"""IP version, and the address as a number."""


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
    """A range with its host bits cleared, and whether it was written with host bits set."""

    range: Range
    has_host_bits: bool


def parse_cidr(value: object) -> Cidr | None:
    """Parse `ADDRESS/PREFIX_LENGTH`; return None for any other value."""
    if not isinstance(value, str):
        return None
    try:
        return Cidr(parse_range(value.strip()), has_host_bits=False)
    except ValueError as error:
        mark, _, right = str(error).partition("host bits:")
        return Cidr(parse_range(right), has_host_bits=True) if right and not mark else None


def parse_ip_address(value: object) -> IpAddress | None:
    """Parse an IPv4 or IPv6 address; return None for any other value."""
    if not isinstance(value, str):
        return None
    try:
        return parse_address(value.strip())
    except ValueError:
        return None


def parse_span(value: object) -> Span | None:
    """Parse `ADDRESS` or `FIRST-LAST`; return None for other values, and if LAST comes before FIRST."""
    if not isinstance(value, str):
        return None
    head, dash, tail = value.partition("-")
    first = parse_ip_address(head)
    last = parse_ip_address(tail) if dash else first
    if first is None or last is None or first[0] != last[0] or first[1] > last[1]:
        return None
    return Span(first[0], first[1], last[1])


def to_span(addresses: Range) -> Span:
    """Return all addresses of a range as a span."""
    return Span(addresses.version, addresses.base, addresses.last)


def to_usable_span(addresses: Range) -> Span:
    """Return the addresses of a range that hosts may have.

    IPv4 excludes the first and the last address, except in a /31 (RFC 3021) and a /32.
    """
    if addresses.version == V4 and addresses.prefix < BITS[V4] - 1:
        return Span(V4, addresses.base + 1, addresses.last - 1)
    return to_span(addresses)


def is_span_within(span: Span, addresses: Range) -> bool:
    """Return whether all addresses of a span are in a range."""
    return span.version == addresses.version and addresses.base <= span.first and span.last <= addresses.last


def is_address_in(address: IpAddress, addresses: Range) -> bool:
    """Return whether an address is in a range."""
    return address[0] == addresses.version and address[1] in addresses
