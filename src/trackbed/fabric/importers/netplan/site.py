"""The site that the files describe: its rails, and which interface of each host is the port on which rail."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trackbed.fabric.importers.imported import NOTE, HostProblem
from trackbed.fabric.importers.netplan.grouping import (
    build_members,
    drop_strays,
    find_odd_ranges,
    group_members,
    select_rail_members,
)
from trackbed.fabric.model.ranges import BITS, V4, V6, Range, cover

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trackbed.fabric.importers.netplan.interfaces import Interface, StaticAddress


@dataclass(frozen=True, slots=True)
class NetplanSite:
    """Ports by host and rail; ranges and supernet of each IP version that is in use."""

    ports: Mapping[str, Mapping[int, Interface]]
    ranges: Mapping[int, Sequence[Range]]
    supernets: Mapping[int, Range]
    other_subnets: tuple[Range, ...]
    """Subnets of interfaces that are no rails."""

    @property
    def rail_count(self) -> int:
        """How many there are."""
        return len(next(iter(self.ranges.values())))

    def find_address(self, host: str, rail: int, version: int) -> StaticAddress | None:
        """The address of a port that counts: the one in the rail's range, else its first."""
        port = self.ports[host].get(rail)
        own = [a for a in port.addresses if a.version == version] if port else []
        return next((a for a in own if a.number in self.ranges[version][rail]), own[0] if own else None)

    def find_gateway(self, host: str, rail: int, version: int) -> int | None:
        """What a port's routes go by, if it lies in the port's subnet; None where no route says."""
        own, port = self.find_address(host, rail, version), self.ports[host].get(rail)
        if own is None or port is None:
            return None
        found = Counter(h.via for h in port.routes if h.via and h.to.version == version and h.via in own.subnet)
        return found.most_common(1)[0][0] if found else None


class SiteFinder:
    """Finds the site in all interfaces of all hosts; what it could not place is in `remarks`."""

    def __init__(self, hosts: Mapping[str, Sequence[Interface]]) -> None:
        self._hosts = hosts
        self.problems: list[HostProblem] = []
        self._left: list[Interface] = []

    def find_site(self) -> NetplanSite | None:
        """The site, or None where nothing looks like a rail."""
        candidates = [i for own in self._hosts.values() for i in self._static(own)]
        for version in (V4, V6):
            rails = _rails(candidates, version)
            if rails:
                used = {_rail_of(interface, sorted(rails)) for interface in candidates}
                return self._with([cut for r, cut in enumerate(sorted(rails)) if r in used], candidates, version)
        return None

    def _static(self, own: Sequence[Interface]) -> Iterator[Interface]:
        """Interfaces with static addresses, management left out."""
        defaults = [interface for interface in own if interface.has_default_route]
        for interface in own:
            sole = len(defaults) == 1 and interface in defaults and len(own) > 1
            if not interface.addresses:
                reason = "DHCP gives its address" if interface.dhcp else "it has no address"
                self._aside(interface, reason)
            elif sole and not any(a.prefix >= BITS[a.version] - 1 for a in interface.addresses):
                self._left.append(interface)
                self._aside(interface, "the default route leaves here, so it is management")
            else:
                yield interface

    def _with(self, ranges: list[Range], candidates: list[Interface], version: int) -> NetplanSite:
        ports: dict[str, dict[int, Interface]] = {}
        rest = []
        for interface in candidates:
            rail = _rail_of(interface, ranges)
            own = ports.setdefault(interface.host, {})
            if rail is None:
                rest.append(interface)
            elif own.setdefault(rail, interface) is not interface:
                self._second(interface, own[rail], rail)
        self._strays(ports, len(ranges), rest)
        placed = {id(port) for own in ports.values() for port in own.values()}
        self._not_rails([i for i in rest if id(i) not in placed])
        self._missing(ports, ranges)
        ports = {host: own for host, own in ports.items() if own}
        found = {version: ranges, **self._other_version(ports, len(ranges), V4 + V6 - version)}
        return NetplanSite(ports, found, _supernets(ports, found), _apart(self._left, found))

    def _second(self, interface: Interface, first: Interface, rail: int) -> None:
        message = f"{interface.name} is a second port on rail {rail} beside {first.name}; only {first.name} is taken"
        self._say("second-port", message, interface)

    def _strays(self, ports: dict[str, dict[int, Interface]], rails: int, rest: list[Interface]) -> None:
        """Addresses off the pattern: an interface whose namesakes are on a rail that its host lacks is that port."""
        usual = [Counter(own[rail].name for own in ports.values() if rail in own) for rail in range(rails)]
        for interface in rest:
            own = ports[interface.host]
            for rail in sorted(set(range(rails)) - own.keys()):
                if interface.name and usual[rail].most_common(1)[0][0] == interface.name:
                    own[rail] = interface
                    message = f"{interface.addresses[0]} of {interface.name} lies in no rail's range; by its name it "
                    self._say("stray-address", f"{message}is the port on rail {rail}", interface, "error")
                    break

    def _not_rails(self, interfaces: list[Interface]) -> None:
        hosts = Counter(a.subnet for i in interfaces for a in i.addresses)
        for interface in interfaces:
            self._left.append(interface)
            shared = sorted({str(a.subnet) for a in interface.addresses if hosts[a.subnet] > 1})
            network = ", ".join(shared) or "its address"
            mtu = f", MTU {interface.mtu_bytes}" if interface.mtu_bytes else ""
            self._aside(interface, f"{network}{mtu} is none of the rails' ranges")

    def _missing(self, ports: dict[str, dict[int, Interface]], ranges: list[Range]) -> None:
        for host in self._hosts:
            own = ports.get(host, {})
            place = next((a.place for i in self._hosts[host] for a in i.addresses), None)
            if not own:
                message = "no port on any rail; the host is left out"
                self.problems.append(HostProblem("no-port", message, host, place))
                continue
            for rail in sorted(set(range(len(ranges))) - own.keys()):
                message = (
                    f"no port on rail {rail} ({ranges[rail]}): null in hostPorts; if the port exists, complete the "
                    "host's file"
                )
                self.problems.append(HostProblem("rail-missing", message, host, place))

    def _other_version(
        self, ports: dict[str, dict[int, Interface]], rails: int, version: int
    ) -> dict[int, list[Range]]:
        """The rails' ranges in the other IP version, if the ports have addresses there."""
        on_rail = {id(port): rail for own in ports.values() for rail, port in own.items()}
        found = build_members([port for own in ports.values() for port in own.values()], version)
        if not found:
            return {}
        keys = [Counter[Range]() for _ in range(rails)]
        for key, listed in group_members(found).items():
            for member in listed:
                keys[on_rail[id(member.interface)]][key] += 1
        chosen = [counts.most_common(1)[0][0] if counts else None for counts in keys]
        if None in chosen or len(set(chosen)) < rails:
            message = f"the IPv{version} addresses do not tell the rails apart; IPv{version} is left out"
            self._say("other-version", message, found[0].interface)
            return {}
        return {version: [key for key in chosen if key]}

    def _aside(self, interface: Interface, reason: str) -> None:
        self._say("set-aside", f"{interface.name} is no rail: {reason}", interface, NOTE)

    def _say(self, code: str, message: str, interface: Interface, severity: str = "warning") -> None:
        place = interface.addresses[0].place if interface.addresses else interface.place
        self.problems.append(HostProblem(code, message, interface.host, place, severity))


def _rails(candidates: list[Interface], version: int) -> set[Range]:
    """The ranges that are rails."""
    groups = drop_strays(group_members(select_rail_members(build_members(candidates, version))))
    return groups.keys() - find_odd_ranges(groups)


def _rail_of(interface: Interface, ranges: list[Range]) -> int | None:
    found = (
        rail
        for address in interface.addresses
        for rail, cut in enumerate(ranges)
        if cut.version == address.version and address.number in cut
    )
    return next(found, None)


def _supernets(ports: dict[str, dict[int, Interface]], ranges: Mapping[int, Sequence[Range]]) -> dict[int, Range]:
    """The widest range routed by the ports that holds all rails, else what the rails cover."""
    found = {}
    for version, cuts in ranges.items():
        whole = cover(list(cuts))
        routed = {hop.to for own in ports.values() for port in own.values() for hop in port.routes}
        wide = [to for to in routed if to.version == version and 0 < to.prefix <= whole.prefix and whole.base in to]
        found[version] = min(wide, key=lambda to: to.prefix, default=whole)
    return found


def _apart(left: list[Interface], ranges: Mapping[int, Sequence[Range]]) -> tuple[Range, ...]:
    subnets = {address.subnet for interface in left for address in interface.addresses}
    rails = [cut for cuts in ranges.values() for cut in cuts]
    return tuple(sorted(s for s in subnets if not any(s.overlaps(cut) for cut in rails)))
