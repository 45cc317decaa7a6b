"""The site that the files describe: its rails, and the interface of each host that is its port on a rail."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trackbed.fabric.importers.inference.grouping import (
    build_members,
    drop_strays,
    find_odd_ranges,
    group_members,
    select_rail_members,
)
from trackbed.fabric.importers.inference.patterns import find_pattern
from trackbed.fabric.importers.interface import Interface, StaticAddress
from trackbed.fabric.importers.result import NOTE, HostProblem
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.model.ranges import BITS, V4, V6, Range, cover


@dataclass(frozen=True, slots=True)
class RailSite:
    """Rails found in netplan files: ports by host and rail, ranges and supernet by IP version."""

    ports: Mapping[str, Mapping[int, Interface]]
    ranges: Mapping[int, Sequence[Range]]
    supernets: Mapping[int, Range]
    other_subnets: tuple[Range, ...]
    """Subnets of interfaces that are not rails."""

    @property
    def rail_count(self) -> int:
        """Number of rails."""
        return len(next(iter(self.ranges.values())))

    def find_address(self, host: str, rail: int, ip_version: int) -> StaticAddress | None:
        """Return the main address of a port: the address in the rail's range, else its first address."""
        port = self.ports[host].get(rail)
        addresses = [address for address in port.addresses if address.version == ip_version] if port else []
        return next(
            (address for address in addresses if address.number in self.ranges[ip_version][rail]),
            addresses[0] if addresses else None,
        )

    def find_gateway(self, host: str, rail: int, ip_version: int) -> int | None:
        """Return the most common gateway of a port's routes among those in its subnet; None if there is none."""
        address, port = self.find_address(host, rail, ip_version), self.ports[host].get(rail)
        if address is None or port is None:
            return None
        gateways = Counter(
            route.via
            for route in port.routes
            if route.via and route.to.version == ip_version and route.via in address.subnet
        )
        return gateways.most_common(1)[0][0] if gateways else None


class SiteFinder:
    """Finds the rails in the interfaces of all hosts and collects `problems`."""

    def __init__(self, hosts: Mapping[str, Sequence[Interface]]) -> None:
        self._hosts = hosts
        self.problems: list[HostProblem] = []
        self._non_rails: list[Interface] = []

    def find_site(self) -> RailSite | None:
        """Return the site; None if no interface looks like a rail.

        Raises SpecError if the addresses follow a pattern that no Fabric has.
        """
        candidates = [
            interface for interfaces in self._hosts.values() for interface in self._iter_static_interfaces(interfaces)
        ]
        for ip_version in (V4, V6):
            if pattern := find_pattern(candidates, ip_version):
                raise SpecError([pattern])
            rails = _find_rail_ranges(candidates, ip_version)
            if rails:
                used = {_find_rail(interface, sorted(rails)) for interface in candidates}
                return self._build_site(
                    [rail_range for rail, rail_range in enumerate(sorted(rails)) if rail in used],
                    candidates,
                    ip_version,
                )
        return None

    def _iter_static_interfaces(self, interfaces: Sequence[Interface]) -> Iterator[Interface]:
        """Yield the interfaces with static addresses, except the management interface; report the others."""
        defaults = [interface for interface in interfaces if interface.has_default_route]
        for interface in interfaces:
            only_default = len(defaults) == 1 and interface in defaults and len(interfaces) > 1
            if not interface.addresses:
                reason = "DHCP gives its address" if interface.dhcp else "it has no address"
                self._report_non_rail(interface, reason)
            elif only_default and not any(
                address.prefix >= BITS[address.version] - 1 for address in interface.addresses
            ):
                self._non_rails.append(interface)
                self._report_non_rail(interface, "the default route leaves here, so it is management")
            else:
                yield interface

    def _build_site(self, ranges: list[Range], candidates: list[Interface], ip_version: int) -> RailSite:
        ports: dict[str, dict[int, Interface]] = {}
        non_rails = []
        for interface in candidates:
            rail = _find_rail(interface, ranges)
            host_ports = ports.setdefault(interface.host, {})
            if rail is None:
                non_rails.append(interface)
            elif host_ports.setdefault(rail, interface) is not interface:
                self._report_second_port(interface, host_ports[rail], rail)
        self._assign_strays(ports, len(ranges), non_rails)
        placed = {id(port) for host_ports in ports.values() for port in host_ports.values()}
        self._report_non_rails([interface for interface in non_rails if id(interface) not in placed])
        self._report_missing_ports(ports, ranges)
        ports = {host: host_ports for host, host_ports in ports.items() if host_ports}
        version_ranges = {
            ip_version: ranges,
            **self._find_other_version_ranges(ports, len(ranges), V4 + V6 - ip_version),
        }
        return RailSite(
            ports,
            version_ranges,
            _find_supernets(ports, version_ranges),
            _list_other_subnets(self._non_rails, version_ranges),
        )

    def _report_second_port(self, interface: Interface, first_port: Interface, rail: int) -> None:
        first = first_port.label
        message = f"{interface.label} is a second port on rail {rail} beside {first}; only {first} is used"
        self._add_problem("second-port", message, interface)

    def _assign_strays(self, ports: dict[str, dict[int, Interface]], rails: int, non_rails: list[Interface]) -> None:
        """Assign interfaces with addresses outside all ranges to rails by their names.

        If interfaces of the same name are on a rail that the host lacks, the interface becomes its port on that rail.
        """
        names = [
            Counter(host_ports[rail].name for host_ports in ports.values() if rail in host_ports)
            for rail in range(rails)
        ]
        for interface in non_rails:
            host_ports = ports[interface.host]
            for rail in sorted(set(range(rails)) - host_ports.keys()):
                if interface.name and names[rail].most_common(1)[0][0] == interface.name:
                    host_ports[rail] = interface
                    message = f"{interface.addresses[0]} of {interface.label} lies in no rail's range; by its name it "
                    self._add_problem("stray-address", f"{message}is the port on rail {rail}", interface, "error")
                    break

    def _report_non_rails(self, interfaces: list[Interface]) -> None:
        hosts = Counter(address.subnet for interface in interfaces for address in interface.addresses)
        for interface in interfaces:
            self._non_rails.append(interface)
            shared_subnets = sorted(
                {str(address.subnet) for address in interface.addresses if hosts[address.subnet] > 1}
            )
            network = ", ".join(shared_subnets) or "its address"
            mtu = f", MTU {interface.mtu_bytes}" if interface.mtu_bytes else ""
            self._report_non_rail(interface, f"{network}{mtu} is none of the rails' ranges")

    def _report_missing_ports(self, ports: dict[str, dict[int, Interface]], ranges: list[Range]) -> None:
        for host in self._hosts:
            host_ports = ports.get(host, {})
            place = next((address.place for interface in self._hosts[host] for address in interface.addresses), None)
            if not host_ports:
                message = "no port on any rail; the host is left out"
                self.problems.append(HostProblem("no-port", message, host, place))
                continue
            for rail in sorted(set(range(len(ranges))) - host_ports.keys()):
                message = (
                    f"no port on rail {rail} ({ranges[rail]}): null in hostPorts; if the port exists, complete the "
                    "host's file"
                )
                self.problems.append(HostProblem("rail-missing", message, host, place))

    def _find_other_version_ranges(
        self, ports: dict[str, dict[int, Interface]], rails: int, ip_version: int
    ) -> dict[int, list[Range]]:
        """Return the rails' ranges in the other IP version, if the ports have such addresses.

        Of several addresses of a port the first counts double.
        """
        on_rail = {id(port): rail for host_ports in ports.values() for rail, port in host_ports.items()}
        members = build_members([port for host_ports in ports.values() for port in host_ports.values()], ip_version)
        if not members:
            return {}
        keys = [Counter[Range]() for _ in range(rails)]
        for key, group in group_members(members).items():
            for member in group:
                first = next(address for address in member.interface.addresses if address.version == ip_version)
                keys[on_rail[id(member.interface)]][key] += 2 if member.address is first else 1
        keys_by_rail = [counts.most_common(1)[0][0] if counts else None for counts in keys]
        if None in keys_by_rail or len(set(keys_by_rail)) < rails:
            message = f"the IPv{ip_version} addresses do not tell the rails apart; all of them are left out"
            self._add_problem("other-version", message, members[0].interface)
            return {}
        return {ip_version: [key for key in keys_by_rail if key]}

    def _report_non_rail(self, interface: Interface, reason: str) -> None:
        self._add_problem("set-aside", f"{interface.label} is no rail: {reason}", interface, NOTE)

    def _add_problem(self, code: str, message: str, interface: Interface, severity: str = "warning") -> None:
        place = interface.addresses[0].place if interface.addresses else interface.place
        self.problems.append(HostProblem(code, message, interface.host, place, severity))


def _find_rail_ranges(candidates: list[Interface], ip_version: int) -> set[Range]:
    """Return the ranges that are rails."""
    groups = drop_strays(group_members(select_rail_members(build_members(candidates, ip_version))))
    return groups.keys() - find_odd_ranges(groups)


def _find_rail(interface: Interface, ranges: list[Range]) -> int | None:
    rails = (
        rail
        for address in interface.addresses
        for rail, rail_range in enumerate(ranges)
        if rail_range.version == address.version and address.number in rail_range
    )
    return next(rails, None)


def _find_supernets(ports: dict[str, dict[int, Interface]], ranges: Mapping[int, Sequence[Range]]) -> dict[int, Range]:
    """Return a supernet per IP version: the widest routed range that contains all rails, else the smallest cover."""
    supernets = {}
    for ip_version, rail_ranges in ranges.items():
        covering = cover(list(rail_ranges))
        routed = {route.to for host_ports in ports.values() for port in host_ports.values() for route in port.routes}
        wider = [
            destination
            for destination in routed
            if destination.version == ip_version
            and 0 < destination.prefix <= covering.prefix
            and covering.base in destination
        ]
        supernets[ip_version] = min(wider, key=lambda destination: destination.prefix, default=covering)
    return supernets


def _list_other_subnets(interfaces: list[Interface], ranges: Mapping[int, Sequence[Range]]) -> tuple[Range, ...]:
    subnets = {address.subnet for interface in interfaces for address in interface.addresses}
    rails = [rail_range for rail_ranges in ranges.values() for rail_range in rail_ranges]
    return tuple(sorted(subnet for subnet in subnets if not any(subnet.overlaps(rail_range) for rail_range in rails)))
