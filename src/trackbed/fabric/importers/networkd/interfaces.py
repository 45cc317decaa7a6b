"""Ethernet interfaces in a host's units of networkd, as plain values with their places.

[Match]                     [Address]
PermanentMACAddress=...     Address=172.24.0.0/31
[Network]                   [Route]
Gateway=...                 Destination=172.24.0.0/15
Gateway=172.24.0.1
"""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from trackbed.fabric.importers.interface import (
    Interface,
    StaticAddress,
    StaticRoute,
    StaticRule,
    describe_addresses,
)
from trackbed.fabric.importers.networkd.matching import MatchedPort, find_ports, iter_literal_ports
from trackbed.fabric.importers.networkd.units import Unit
from trackbed.fabric.importers.policy import parse_rule
from trackbed.fabric.importers.result import NOTE
from trackbed.fabric.importers.sections import Section
from trackbed.fabric.importers.values import ValueParser, parse_address_or_zero
from trackbed.fabric.model.source import Scalar

_OWNERS = ("Bond", "Bridge")
"""Keys of [Network] that make a port part of another interface."""
_DYNAMIC_GATEWAYS = {"_dhcp4", "_dhcp6", "_ipv6ra"}
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_MAIN_TABLE = {"", "254", "main"}
_ROUTE_KEYS = {"Destination", "Gateway", "Table", "Type", "PreferredSource", "Scope", "Protocol", "GatewayOnLink"}
_TRUE = {"yes", "true", "on", "1"}
_DHCP = {"yes", "true", "on", "1", "ipv4", "ipv6", "both", "v4", "v6"}


class NetworkdReader(ValueParser):
    """Reads the interfaces of one host and collects `problems`."""

    def read_interfaces(self, units: Sequence[Unit]) -> Iterator[Interface]:
        """Yield the Ethernet interfaces that are not part of a bond or bridge; report the others."""
        units = [unit for unit in units if self._is_of_host(unit)]
        virtual = {name: kind for unit in units if unit.name.endswith(".netdev") for name, kind in _read_netdev(unit)}
        ports = find_ports(units)
        self._report_patterns(units, ports)
        for port in ports:
            network = port.network
            if network is None:
                continue
            owner = next((scalar for key in _OWNERS if (scalar := network.merge("Network").find_value(key))), None)
            if port.name in virtual:
                self._report_virtual(port.name, virtual[port.name], network)
            elif owner:
                addresses = describe_addresses(self._read_addresses(network))
                message = f"{port.name or port.mac} is no rail: it belongs to {owner.text}{addresses}"
                self.add_problem("set-aside", message, owner.place, NOTE)
            else:
                yield self._read_interface(port, network)

    def _is_of_host(self, unit: Unit) -> bool:
        hosts = [word for scalar in unit.match.list_values("Host") for word in (scalar.text or "").split()]
        return not hosts or any(fnmatchcase(self.host, host) for host in hosts)

    def _report_patterns(self, units: Sequence[Unit], ports: Sequence[MatchedPort]) -> None:
        """Report files with addresses that name no port literally, and files that an earlier file makes useless."""
        used = {id(port.network) for port in ports}
        for unit in units:
            if not unit.name.endswith(".network") or id(unit) in used or not list(self._read_addresses(unit)):
                continue
            if any(True for _ in iter_literal_ports(unit.match)):
                message = "an earlier file matches the same ports, so this one is never used; rename or remove one"
            else:
                message = "[Match] names no port literally; give it Name= or PermanentMACAddress= of one port"
            self.add_problem("vague-match", f"{unit.name}: {message}", unit.place)

    def _report_virtual(self, name: str, kind: str, network: Unit) -> None:
        addresses = describe_addresses(self._read_addresses(network))
        message = f"{kind} {name} is no rail: rails are Ethernet ports{addresses}"
        self.add_problem("set-aside", message, network.place, NOTE)

    def _read_interface(self, port: MatchedPort, network: Unit) -> Interface:
        link_mtu = port.link.merge("Link").find_value("MTUBytes") if port.link else None
        mtu = network.merge("Link").find_value("MTUBytes") or link_mtu
        dhcp, vrf = network.merge("Network").find_value("DHCP"), network.merge("Network").find_value("VRF")
        is_infiniband = _is_infiniband(network)
        return Interface(
            host=self.host,
            name=self.parse_name(port.name, network.place) if port.name else "",
            mac=self.parse_mac(Scalar(port.mac, network.match.place)) if port.mac and not is_infiniband else None,
            mtu_bytes=self.parse_mtu(_expand_unit(mtu)),
            mtu_place=mtu.place if mtu else None,
            addresses=tuple(self._read_addresses(network)),
            routes=tuple(self._read_routes(network)),
            rules=tuple(self._read_rules(network)),
            dhcp=dhcp is not None and (dhcp.text or "").lower() in _DHCP,
            place=network.place,
            vrf=(vrf.text or "") if vrf else "",
            link_type="infiniband" if is_infiniband else "ethernet",
        )

    def _read_addresses(self, network: Unit) -> Iterator[StaticAddress]:
        scalars = network.merge("Network").list_values("Address")
        scalars += [scalar for section in network.list_sections("Address") if (scalar := section.find_value("Address"))]
        known = set()
        for scalar in scalars:
            address = self.parse_address(scalar)
            if address and address.number == 0:
                message = f"{scalar.text} lets networkd choose the address at random; it is ignored"
                self.add_problem("random-address", message, scalar.place)
            elif address and address[:3] not in known:
                known.add(address[:3])
                yield address

    def _read_routes(self, network: Unit) -> Iterator[StaticRoute]:
        for scalar in network.merge("Network").list_values("Gateway"):
            if scalar.text not in _DYNAMIC_GATEWAYS:
                yield from self._parse_route("default", scalar, Section("Route", [], scalar.place))
        for section in network.list_sections("Route"):
            destination, gateway = section.find_value("Destination"), section.find_value("Gateway")
            is_dynamic = gateway is not None and gateway.text in _DYNAMIC_GATEWAYS
            if not is_dynamic and (destination or gateway or section.find_value("Type")):
                yield from self._parse_route((destination.text if destination else "") or "default", gateway, section)

    def _parse_route(self, destination: str, gateway: Scalar | None, section: Section) -> Iterator[StaticRoute]:
        table = section.find_value("Table")
        route = self.parse_route(
            destination,
            (gateway.text if gateway else "") or "",
            gateway.place if gateway else section.place,
            in_main_table=((table.text if table else "") or "") in _MAIN_TABLE,
        )
        if route:
            yield route._replace(
                table="" if route.in_main_table or table is None else table.text or "",
                kind=_get_text(section, "Type") or "unicast",
                source=parse_address_or_zero(_get_text(section, "PreferredSource")),
                extras=tuple(f"{key} {value.text}" for key, value in section.entries if key not in _ROUTE_KEYS),
            )

    def _read_rules(self, network: Unit) -> Iterator[StaticRule]:
        for section in network.list_sections("RoutingPolicyRule"):
            options = {key.lower(): value.text or "" for key, value in section.entries}
            inverted = options.pop("invertrule", "").lower() in _TRUE
            rule = parse_rule(self, options, section.place, inverted=inverted)
            if rule:
                yield rule


def _get_text(section: Section, key: str) -> str:
    scalar = section.find_value(key)
    return (scalar.text if scalar else "") or ""


def _read_netdev(unit: Unit) -> Iterator[tuple[str, str]]:
    """Yield (name, kind) of the virtual interface that a .netdev file makes."""
    section = unit.merge("NetDev")
    name, kind = section.find_value("Name"), section.find_value("Kind")
    if name and name.text:
        yield name.text, (kind.text if kind else "") or "netdev"


def _is_infiniband(network: Unit) -> bool:
    """Return whether a .network file is for InfiniBand: its [Match] has the type, or it has a section for IPoIB."""
    types = {word for scalar in network.match.list_values("Type") for word in (scalar.text or "").split()}
    return types == {"infiniband"} or bool(network.list_sections("IPoIB"))


def _expand_unit(scalar: Scalar | None) -> Scalar | None:
    """Return a number of bytes with its suffix K, M or G (base 1024) resolved."""
    text = (scalar.text if scalar else "") or ""
    digits, unit = text[:-1].strip(), text[-1:]
    if scalar is None or unit not in _UNITS or not (digits.isascii() and digits.isdigit() and len(digits) < 10):  # noqa: PLR2004 - no MTU has as many digits
        return scalar
    return Scalar(str(int(digits) * _UNITS[unit]), scalar.place)
