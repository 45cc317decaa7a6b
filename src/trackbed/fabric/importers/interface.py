"""Interfaces of a host as every source describes them: addresses, routes, MTU and MAC, each with its place."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from trackbed.fabric.model.problems import Place
from trackbed.fabric.model.ranges import BITS, Range, format_address


class StaticAddress(NamedTuple):
    """A static address of an interface."""

    version: int
    number: int
    prefix: int
    place: Place

    @property
    def subnet(self) -> Range:
        """The subnet of the address."""
        return apply_netmask(self.version, self.number, self.prefix)

    def __str__(self) -> str:
        return f"{format_address(self.version, self.number)}/{self.prefix}"


class StaticRoute(NamedTuple):
    """A static route. `via` is the gateway, 0 for an on-link route; `in_main_table` is false in any other table."""

    to: Range
    via: int
    in_main_table: bool
    place: Place
    table: str = ""
    """The table as the file gives it; empty for the main table, and if the source does not tell."""
    kind: str = "unicast"
    source: int = 0
    """Preferred source address; 0 if none is given."""
    extras: tuple[str, ...] = ()
    """Other properties as the file has them: `metric 100`."""


class StaticRule(NamedTuple):
    """A policy rule. Its table is text as in the file, `priority` is None if the file leaves it to the kernel."""

    source: Range | None
    table: str
    priority: int | None
    place: Place
    extras: tuple[str, ...] = ()
    """What else it asks for, as the file has it: `to 10.0.0.0/8`, `mark 7`."""
    unless_to: Range | None = None
    """The destinations that the rule is not for, if it is for all others."""

    @property
    def version(self) -> int:
        """The IP version of its ranges; 0 without any."""
        return next((range_.version for range_ in (self.source, self.unless_to) if range_), 0)


@dataclass(frozen=True, slots=True)
class Interface:
    """An Ethernet or InfiniBand interface of a host."""

    host: str
    name: str
    """Name on the host, as the source gives it. Empty if the kernel would refuse it, or the source gives none."""
    mac: str | None
    mtu_bytes: int | None
    mtu_place: Place | None
    addresses: tuple[StaticAddress, ...]
    routes: tuple[StaticRoute, ...]
    dhcp: bool
    place: Place | None
    """Place of its entry in the file."""
    rules: tuple[StaticRule, ...] = ()
    vrf: str = ""
    """Name of the VRF to which it belongs."""
    link_type: str = "ethernet"
    """The linkType of a Fabric."""

    @property
    def label(self) -> str:
        """The interface for messages: its name, else its MAC address."""
        return self.name or self.mac or "a port without a name"

    @property
    def has_default_route(self) -> bool:
        """Whether the host's default route uses this interface."""
        return any(route.in_main_table and route.to.prefix == 0 for route in self.routes)


def describe_addresses(addresses: Iterable[StaticAddress]) -> str:
    """Return what a message that sets an interface aside adds about its addresses; empty without any."""
    shown = ", ".join(map(str, addresses))
    return f" (it has {shown})" if shown else ""


def apply_netmask(ip_version: int, address: int, prefix: int) -> Range:
    """Return the range of the given prefix length that contains an address."""
    bits = BITS[ip_version] - prefix
    return Range(ip_version, address >> bits << bits, prefix)
