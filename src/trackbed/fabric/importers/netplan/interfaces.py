"""What a host's `network` says of each Ethernet interface, in plain values with their places.

    enp27s0np0:
      match: {macaddress: "b8:3f:d2:00:00:40"}
      set-name: rail4
      mtu: 9000
      addresses: [172.24.0.0/31, {"fd00:10::8/127": {label: x}}]
      routes: [{to: 172.24.0.0/15, via: 172.24.0.1}]

Keys that say nothing about addresses (nameservers, optional, renderer ...) are passed over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import PydanticCustomError

from trackbed.fabric.importers.imported import NOTE, HostProblem
from trackbed.fabric.model.model import MAC, check_interface_name
from trackbed.fabric.model.ranges import BITS, V4, V6, Range, parse_address, text
from trackbed.fabric.model.source import Scalar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.fabric.importers.netplan.files import Tree
    from trackbed.fabric.model.problems import Place

OTHER_KINDS = (
    "bonds", "bridges", "vlans", "vrfs", "tunnels", "wifis", "modems", "dummy-devices", "virtual-ethernets",
    "nm-devices",
)  # fmt: skip
"""Sections of netplan beside `ethernets`; none of them is a port."""

MIN_MTU_BYTES, MAX_MTU_BYTES = 1280, 65535
"""What a Fabric can say: IPv6's minimum (RFC 8200), and the largest IP packet."""

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
        """The subnet it lies in."""
        return _masked(self.version, self.number, self.prefix)

    def __str__(self) -> str:
        return f"{text(self.version, self.number)}/{self.prefix}"


class StaticRoute(NamedTuple):
    """A static route; `via` 0 means on the link, `main` that it stands in the main table."""

    to: Range
    via: int
    main: bool
    place: Place


@dataclass(frozen=True, slots=True)
class Interface:
    """One Ethernet interface of one host."""

    host: str
    name: str
    """As the host calls it: set-name, else a literal match.name, else the key. "" if no kernel accepts it."""
    mac: str | None
    mtu_bytes: int | None
    mtu_place: Place | None
    addresses: tuple[StaticAddress, ...]
    routes: tuple[StaticRoute, ...]
    dhcp: bool
    place: Place | None
    """Where its entry begins."""

    @property
    def has_default_route(self) -> bool:
        """Whether the host's default route leaves here."""
        return any(hop.main and hop.to.prefix == 0 for hop in self.routes)


class InterfaceReader:
    """Reads one host; what it stumbles over is in `remarks`."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.problems: list[HostProblem] = []

    def read_interfaces(self, network: Tree) -> Iterator[Interface]:
        """Every Ethernet interface that stands alone; others are remarked upon."""
        members = dict(self._others(network))
        for key, entry in self._mapping(network, "ethernets"):
            if key in members:
                self._say("set-aside", f"{key} is no rail: it belongs to {members[key]}", None, NOTE)
            elif isinstance(entry, dict):
                yield self._interface(key, entry)
            elif not (isinstance(entry, Scalar) and entry.text is None):
                self._say("wrong-shape", f"ethernets.{key} must be a mapping", _place(entry))

    def _others(self, network: Tree) -> Iterator[tuple[str, str]]:
        """Remark on bonds and their like; yield (member, what it belongs to)."""
        for kind in OTHER_KINDS:
            for name, entry in self._mapping(network, kind):
                label = f"{kind.removesuffix('s')} {name}"
                addresses = list(self._addresses(entry)) if isinstance(entry, dict) else []
                shown = f" (it has {', '.join(map(str, addresses))})" if addresses else ""
                place = addresses[0].place if addresses else _place(entry)
                self._say("set-aside", f"{label} is no rail: rails are Ethernet ports{shown}", place, NOTE)
                for member in _listed(entry, "interfaces") if isinstance(entry, dict) else []:
                    if isinstance(member, Scalar) and member.text:
                        yield member.text, label

    def _interface(self, key: str, entry: Tree) -> Interface:
        mtu = _scalar(entry, "mtu")
        match = entry["match"] if isinstance(entry.get("match"), dict) else {}
        mac = self._mac(match, entry)
        return Interface(
            host=self.host,
            name=self._name(key, entry, match, mac),
            mac=mac,
            mtu_bytes=self._mtu(mtu),
            mtu_place=mtu.place if mtu else None,
            addresses=tuple(self._addresses(entry)),
            routes=tuple(self._hops(entry)),
            dhcp=any(_true(_scalar(entry, field)) for field in ("dhcp4", "dhcp6")),
            place=_place(entry),
        )

    def _name(self, key: str, entry: Tree, match: Tree, mac: str | None) -> str:
        given, matched = _scalar(entry, "set-name"), _scalar(match, "name")
        literal = matched if matched and matched.text and not _GLOB.search(matched.text) else None
        chosen = next((w for w in (given, literal) if w and w.text), None)
        name = chosen.text if chosen and chosen.text else key
        if match and not (chosen or mac or "macaddress" in match):
            message = (
                f"{key} matches ports by a pattern or driver only; give it macaddress or set-name, or call it {key}"
            )
            self._say("vague-match", message, _place(match))
        try:
            return check_interface_name(name)
        except PydanticCustomError as error:
            self._say("bad-name", error.message(), chosen.place if chosen else _place(entry))
            return ""

    def _mac(self, match: Tree, entry: Tree) -> str | None:
        """The permanent address where it is given, else the one that is set."""
        found = _scalar(match, "macaddress") or _scalar(entry, "macaddress")
        if found is None or found.text in {None, "permanent", "random", "stable", "preserve"}:
            return None
        mac = (found.text or "").lower().replace("-", ":")
        if MAC.fullmatch(mac):
            return mac
        message = f"{found.text!r} is no MAC address, write for example b8:3f:d2:00:00:01"
        self._say("bad-mac", message, found.place)
        return None

    def _mtu(self, written: Scalar | None) -> int | None:
        if written is None or written.text is None:
            return None
        if written.text.isascii() and written.text.isdigit() and len(written.text) <= len(str(MAX_MTU_BYTES)):
            mtu = int(written.text)
            if MIN_MTU_BYTES <= mtu <= MAX_MTU_BYTES:
                return mtu
        message = f"mtu is {written.text!r}, it must be a number from {MIN_MTU_BYTES} to {MAX_MTU_BYTES}"
        self._say("bad-mtu", message, written.place)
        return None

    def _addresses(self, entry: Tree) -> Iterator[StaticAddress]:
        seen = set()
        for item in _listed(entry, "addresses"):
            written = item
            if isinstance(item, dict) and len(item) == 1:  # {address: {label: ..., lifetime: ...}}
                place = _place(item) or _place(entry)
                written = Scalar(next(iter(item)), place) if place else item
            found = self._address(written)
            if found and found[:3] not in seen and not (found.version == V6 and found.number in _LINK_LOCAL):
                seen.add(found[:3])
                yield found

    def _address(self, written: object) -> StaticAddress | None:
        if not isinstance(written, Scalar):
            self._say("bad-address", "an address must be text, as in 172.16.0.0/31", _place(written))
            return None
        head, _, tail = (written.text or "").partition("/")
        try:
            version, number = parse_address(head)
            if not 0 < int(tail) <= BITS[version]:
                raise ValueError(tail)  # noqa: TRY301 - one message for all that is wrong
        except ValueError:
            self._say("bad-address", f"{written.text!r} is no address with prefix, as 172.16.0.0/31 is", written.place)
            return None
        return StaticAddress(version, number, int(tail), written.place)

    def _hops(self, entry: Tree) -> Iterator[StaticRoute]:
        for field in ("gateway4", "gateway6"):
            gateway = _scalar(entry, field)
            if gateway and gateway.text and (hop := self._hop("default", gateway, main=True)):
                yield hop
        for route in _listed(entry, "routes"):
            to, via = (_scalar(route, "to"), _scalar(route, "via")) if isinstance(route, dict) else (None, None)
            if to is None or to.text is None:
                self._say("bad-route", "a route must be a mapping with `to`", _place(route))
                continue
            table = _scalar(route, "table")
            hop = self._hop(to.text, via or to, main=(table.text if table else None) in _MAIN_TABLE)
            if hop:
                yield hop

    def _hop(self, to: str, via: Scalar, *, main: bool) -> StaticRoute | None:
        """A route; where it has no gateway, `via` is what stands in `to`."""
        try:
            gateway = (0, 0) if via.text == to else parse_address(via.text or "")
            return StaticRoute(_destination(to, gateway[0]), gateway[1], main, via.place)
        except ValueError:
            self._say("bad-route", f"cannot read the route to {to!r} via {via.text!r}", via.place)
            return None

    def _mapping(self, network: Tree, section: str) -> list[tuple[str, Any]]:
        found = network.get(section)
        if isinstance(found, dict):
            return list(found.items())
        if found is not None and not (isinstance(found, Scalar) and found.text is None):
            self._say("wrong-shape", f"network.{section} must be a mapping of interfaces", _place(found))
        return []

    def _say(self, code: str, message: str, place: Place | None, severity: str = "warning") -> None:
        self.problems.append(HostProblem(code, message, self.host, place, severity))


def _destination(to: str, version: int) -> Range:
    if to == "default":
        return Range(version or V4, 0, 0)
    head, slash, tail = to.partition("/")
    found, number = parse_address(head)
    prefix = int(tail) if slash else BITS[found]
    if not 0 <= prefix <= BITS[found]:
        raise ValueError(to)
    return _masked(found, number, prefix)


def _masked(version: int, number: int, prefix: int) -> Range:
    bits = BITS[version] - prefix
    return Range(version, number >> bits << bits, prefix)


def _scalar(tree: Tree, key: str) -> Scalar | None:
    found = tree.get(key)
    return found if isinstance(found, Scalar) else None


def _listed(tree: Tree, key: str) -> list[Any]:
    found = tree.get(key)
    if isinstance(found, Scalar):
        return [found] if found.text else []
    return found if isinstance(found, list) else []


def _true(written: Scalar | None) -> bool:
    return written is not None and (written.text or "").lower() in {"true", "yes", "on", "y"}


def _place(tree: object) -> Place | None:
    """Where the first scalar inside stands."""
    if isinstance(tree, Scalar):
        return tree.place
    inside = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return next((place for item in inside if (place := _place(item))), None)
