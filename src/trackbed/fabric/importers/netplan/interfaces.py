"""Ethernet interfaces in a host's `network`, as plain values with their places.

    enp27s0np0:
      match: {macaddress: "b8:3f:d2:00:00:40"}
      set-name: rail4
      mtu: 9000
      addresses: [172.24.0.0/31, {"fd00:10::8/127": {label: x}}]
      routes: [{to: 172.24.0.0/15, via: 172.24.0.1}]

Keys that do not concern addresses (nameservers, optional, renderer ...) are ignored.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic_core import PydanticCustomError

from trackbed.fabric.importers.netplan.files import Tree
from trackbed.fabric.importers.result import NOTE, HostProblem
from trackbed.fabric.model.model import MAC, check_interface_name
from trackbed.fabric.model.problems import Place
from trackbed.fabric.model.ranges import BITS, V4, V6, Range, format_address, parse_address
from trackbed.fabric.model.source import Scalar

OTHER_KINDS = (
    "bonds", "bridges", "vlans", "vrfs", "tunnels", "wifis", "modems", "dummy-devices", "virtual-ethernets",
    "nm-devices",
)  # fmt: skip
"""Sections of netplan other than `ethernets`; none of them contains a port."""

MIN_MTU_BYTES, MAX_MTU_BYTES = 1280, 65535
"""Limits of a Fabric: the minimum of IPv6 (RFC 8200), and the largest IP packet."""

_MAIN_TABLE = {None, "254", "main"}
_LINK_LOCAL = Range(V6, 0xFE80 << 112, 10)
_GLOB = re.compile(r"[*?\[]")


class StaticAddress(NamedTuple):
    """A static address of an interface."""

    version: int
    number: int
    prefix: int
    place: Place

    @property
    def subnet(self) -> Range:
        """The subnet of the address."""
        return _apply_netmask(self.version, self.number, self.prefix)

    def __str__(self) -> str:
        return f"{format_address(self.version, self.number)}/{self.prefix}"


class StaticRoute(NamedTuple):
    """A static route. `via` is the gateway, 0 for an on-link route; `main` tells whether it is in the main table."""

    to: Range
    via: int
    main: bool
    place: Place


@dataclass(frozen=True, slots=True)
class Interface:
    """An Ethernet interface of a host."""

    host: str
    name: str
    """Name on the host: set-name, else a literal match.name, else the key. Empty if the kernel would refuse it."""
    mac: str | None
    mtu_bytes: int | None
    mtu_place: Place | None
    addresses: tuple[StaticAddress, ...]
    routes: tuple[StaticRoute, ...]
    dhcp: bool
    place: Place | None
    """Start of its entry."""

    @property
    def has_default_route(self) -> bool:
        """Whether the host's default route uses this interface."""
        return any(route.main and route.to.prefix == 0 for route in self.routes)


class InterfaceReader:
    """Reader of one host's interfaces; collects `problems`."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.problems: list[HostProblem] = []

    def read_interfaces(self, network: Tree) -> Iterator[Interface]:
        """Yield the Ethernet interfaces that are not part of a bond or bridge; the others are reported."""
        owners = dict(self._read_other_kinds(network))
        for key, entry in self._read_section(network, "ethernets"):
            if key in owners:
                self._report("set-aside", f"{key} is no rail: it belongs to {owners[key]}", None, NOTE)
            elif isinstance(entry, dict):
                yield self._read_interface(key, entry)
            elif not (isinstance(entry, Scalar) and entry.text is None):
                self._report("wrong-shape", f"ethernets.{key} must be a mapping", _find_place(entry))

    def _read_other_kinds(self, network: Tree) -> Iterator[tuple[str, str]]:
        """Report bonds and the like; yield (member, the interface it belongs to)."""
        for kind in OTHER_KINDS:
            for name, entry in self._read_section(network, kind):
                label = f"{kind.removesuffix('s')} {name}"
                addresses = list(self._read_addresses(entry)) if isinstance(entry, dict) else []
                address_list = f" (it has {', '.join(map(str, addresses))})" if addresses else ""
                place = addresses[0].place if addresses else _find_place(entry)
                self._report("set-aside", f"{label} is no rail: rails are Ethernet ports{address_list}", place, NOTE)
                for member in _get_list(entry, "interfaces") if isinstance(entry, dict) else []:
                    if isinstance(member, Scalar) and member.text:
                        yield member.text, label

    def _read_interface(self, key: str, entry: Tree) -> Interface:
        mtu = _get_scalar(entry, "mtu")
        match = entry["match"] if isinstance(entry.get("match"), dict) else {}
        mac = self._read_mac(match, entry)
        return Interface(
            host=self.host,
            name=self._read_name(key, entry, match, mac),
            mac=mac,
            mtu_bytes=self._read_mtu(mtu),
            mtu_place=mtu.place if mtu else None,
            addresses=tuple(self._read_addresses(entry)),
            routes=tuple(self._read_routes(entry)),
            dhcp=any(_is_true(_get_scalar(entry, field)) for field in ("dhcp4", "dhcp6")),
            place=_find_place(entry),
        )

    def _read_name(self, key: str, entry: Tree, match: Tree, mac: str | None) -> str:
        set_name, match_name = _get_scalar(entry, "set-name"), _get_scalar(match, "name")
        literal = match_name if match_name and match_name.text and not _GLOB.search(match_name.text) else None
        source = next((scalar for scalar in (set_name, literal) if scalar and scalar.text), None)
        name = source.text if source and source.text else key
        if match and not (source or mac or "macaddress" in match):
            message = (
                f"{key} matches ports by a pattern or driver only; give it macaddress or set-name, or call it {key}"
            )
            self._report("vague-match", message, _find_place(match))
        try:
            return check_interface_name(name)
        except PydanticCustomError as error:
            self._report("bad-name", error.message(), source.place if source else _find_place(entry))
            return ""

    def _read_mac(self, match: Tree, entry: Tree) -> str | None:
        """Return the permanent address in `match` if present, else the configured one."""
        scalar = _get_scalar(match, "macaddress") or _get_scalar(entry, "macaddress")
        if scalar is None or scalar.text in {None, "permanent", "random", "stable", "preserve"}:
            return None
        mac = (scalar.text or "").lower().replace("-", ":")
        if MAC.fullmatch(mac):
            return mac
        message = f"{scalar.text!r} is no MAC address, write for example b8:3f:d2:00:00:01"
        self._report("bad-mac", message, scalar.place)
        return None

    def _read_mtu(self, scalar: Scalar | None) -> int | None:
        if scalar is None or scalar.text is None:
            return None
        if scalar.text.isascii() and scalar.text.isdigit() and len(scalar.text) <= len(str(MAX_MTU_BYTES)):
            mtu = int(scalar.text)
            if MIN_MTU_BYTES <= mtu <= MAX_MTU_BYTES:
                return mtu
        message = f"mtu is {scalar.text!r}, it must be a number from {MIN_MTU_BYTES} to {MAX_MTU_BYTES}"
        self._report("bad-mtu", message, scalar.place)
        return None

    def _read_addresses(self, entry: Tree) -> Iterator[StaticAddress]:
        known = set()
        for item in _get_list(entry, "addresses"):
            scalar = item
            if isinstance(item, dict) and len(item) == 1:  # {address: {label: ..., lifetime: ...}}
                place = _find_place(item) or _find_place(entry)
                scalar = Scalar(next(iter(item)), place) if place else item
            address = self._parse_address(scalar)
            if address and address[:3] not in known and not (address.version == V6 and address.number in _LINK_LOCAL):
                known.add(address[:3])
                yield address

    def _parse_address(self, scalar: object) -> StaticAddress | None:
        if not isinstance(scalar, Scalar):
            self._report("bad-address", "an address must be text, as in 172.16.0.0/31", _find_place(scalar))
            return None
        address, _, prefix = (scalar.text or "").partition("/")
        try:
            version, number = parse_address(address)
            if not 0 < int(prefix) <= BITS[version]:
                raise ValueError(prefix)  # noqa: TRY301 - one message for every error
        except ValueError:
            self._report("bad-address", f"{scalar.text!r} is no address with prefix, as 172.16.0.0/31 is", scalar.place)
            return None
        return StaticAddress(version, number, int(prefix), scalar.place)

    def _read_routes(self, entry: Tree) -> Iterator[StaticRoute]:
        for field in ("gateway4", "gateway6"):
            gateway = _get_scalar(entry, field)
            if gateway and gateway.text and (route := self._parse_route("default", gateway, main=True)):
                yield route
        for item in _get_list(entry, "routes"):
            destination, via = (
                (_get_scalar(item, "to"), _get_scalar(item, "via")) if isinstance(item, dict) else (None, None)
            )
            if destination is None or destination.text is None:
                self._report("bad-route", "a route must be a mapping with `to`", _find_place(item))
                continue
            table = _get_scalar(item, "table")
            route = self._parse_route(
                destination.text, via or destination, main=(table.text if table else None) in _MAIN_TABLE
            )
            if route:
                yield route

    def _parse_route(self, destination: str, via: Scalar, *, main: bool) -> StaticRoute | None:
        """Parse a route; without gateway, `via` is the scalar of the destination."""
        try:
            gateway = (0, 0) if via.text == destination else parse_address(via.text or "")
            return StaticRoute(_parse_destination(destination, gateway[0]), gateway[1], main, via.place)
        except ValueError:
            self._report("bad-route", f"cannot read the route to {destination!r} via {via.text!r}", via.place)
            return None

    def _read_section(self, network: Tree, section: str) -> list[tuple[str, Any]]:
        entries = network.get(section)
        if isinstance(entries, dict):
            return list(entries.items())
        if entries is not None and not (isinstance(entries, Scalar) and entries.text is None):
            self._report("wrong-shape", f"network.{section} must be a mapping of interfaces", _find_place(entries))
        return []

    def _report(self, code: str, message: str, place: Place | None, severity: str = "warning") -> None:
        self.problems.append(HostProblem(code, message, self.host, place, severity))


def _parse_destination(destination: str, version: int) -> Range:
    if destination == "default":
        return Range(version or V4, 0, 0)
    address, slash, prefix_text = destination.partition("/")
    address_version, number = parse_address(address)
    prefix = int(prefix_text) if slash else BITS[address_version]
    if not 0 <= prefix <= BITS[address_version]:
        raise ValueError(destination)
    return _apply_netmask(address_version, number, prefix)


def _apply_netmask(version: int, number: int, prefix: int) -> Range:
    bits = BITS[version] - prefix
    return Range(version, number >> bits << bits, prefix)


def _get_scalar(tree: Tree, key: str) -> Scalar | None:
    value = tree.get(key)
    return value if isinstance(value, Scalar) else None


def _get_list(tree: Tree, key: str) -> list[Any]:
    value = tree.get(key)
    if isinstance(value, Scalar):
        return [value] if value.text else []
    return value if isinstance(value, list) else []


def _is_true(scalar: Scalar | None) -> bool:
    return scalar is not None and (scalar.text or "").lower() in {"true", "yes", "on", "y"}


def _find_place(value: object) -> Place | None:
    """Return the place of the first scalar in a value."""
    if isinstance(value, Scalar):
        return value.place
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((place for item in values if (place := _find_place(item))), None)
