"""Addresses and ranges as people write them in manifests."""

from __future__ import annotations

from typing import NamedTuple

from trackbed.fabric.model.ranges import BITS, V4, Range, format_address, parse_address, parse_range


class Span(NamedTuple):
    """Addresses from first to last, both included."""

    version: int
    first: int
    last: int

    def overlaps(self, other: Span) -> bool:
        """Whether an address lies in both."""
        return self.version == other.version and self.first <= other.last and other.first <= self.last

    def __str__(self) -> str:
        first = format_address(self.version, self.first)
        return first if self.first == self.last else f"{first}-{format_address(self.version, self.last)}"


class Cidr(NamedTuple):
    """A range as written, and as it is without host bits."""

    range: Range
    sound: bool
    """False where host bits are set."""


def cidr(value: object) -> Cidr | None:
    """Read `address/prefix`; None where it is none."""
    if not isinstance(value, str):
        return None
    try:
        return Cidr(parse_range(value.strip()), sound=True)
    except ValueError as error:
        mark, _, right = str(error).partition("host bits:")
        return Cidr(parse_range(right), sound=False) if right and not mark else None


def address(value: object) -> tuple[int, int] | None:
    """Read an address as (IP version, int); None where it is none."""
    if not isinstance(value, str):
        return None
    try:
        return parse_address(value.strip())
    except ValueError:
        return None


def span(value: object) -> Span | None:
    """Read `a` or `a-b`; None where it is neither, or runs backwards."""
    if not isinstance(value, str):
        return None
    head, dash, tail = value.partition("-")
    first = address(head)
    last = address(tail) if dash else first
    if first is None or last is None or first[0] != last[0] or first[1] > last[1]:
        return None
    return Span(first[0], first[1], last[1])


def span_of(found: Range) -> Span:
    """A range's addresses."""
    return Span(found.version, found.base, found.last)


def usable(found: Range) -> Span:
    """Addresses a host may have: IPv4 without the first and the last, but all of a /31 (RFC 3021) and a /32."""
    if found.version == V4 and found.prefix < BITS[V4] - 1:
        return Span(V4, found.base + 1, found.last - 1)
    return span_of(found)


def within(inner: Span, outer: Range) -> bool:
    """Whether all of `inner` lies in `outer`."""
    return inner.version == outer.version and outer.base <= inner.first and inner.last <= outer.last


def is_in(one: tuple[int, int], outer: Range) -> bool:
    """Whether an (IP version, int) lies in a range."""
    return one[0] == outer.version and one[1] in outer


def written(one: tuple[int, int]) -> str:
    """An address as text."""
    return format_address(*one)
