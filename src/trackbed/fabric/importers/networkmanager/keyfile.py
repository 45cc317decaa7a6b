"""Keyfiles of NetworkManager: nm-settings-keyfile(5).

[connection]                  [ipv4]
type=ethernet                 method=manual
interface-name=rail0          address1=172.24.0.0/31
[ethernet]                    route1=172.24.0.0/15,172.24.0.1
mtu=9000                      route1_options=table=100
"""

import re
from collections.abc import Iterator, Sequence

from trackbed.fabric.importers.interface import Interface, StaticAddress, StaticRoute, StaticRule
from trackbed.fabric.importers.networkmanager.profile import Profile
from trackbed.fabric.importers.policy import parse_rule_words
from trackbed.fabric.importers.precedence import choose_files
from trackbed.fabric.importers.sections import Section, merge_sections, read_sections
from trackbed.fabric.importers.source import NamedFile
from trackbed.fabric.importers.values import ValueParser, parse_address_or_zero
from trackbed.fabric.model.problems import Place, Problem
from trackbed.fabric.model.source import Scalar

_PRECEDENCE = ("lib", "run", "etc")
_ADDRESS = re.compile(r"address(?:es)?[0-9]*")
_ROUTE = re.compile(r"routes?[0-9]*")
_RULE = re.compile(r"routing-rule[0-9]*")
_ROUTE_OPTIONS = {"", "src", "type", "onlink"}
_SEPARATOR = re.compile(r"[,;]")
_MAIN_TABLE = {"", "0", "254"}
_KINDS = {"802-3-ethernet": "ethernet"}
_GENERATED_MACS = {"preserve", "permanent", "random", "stable", "stable-ssid"}


class KeyfileReader:
    """Reads the keyfiles of one host and collects `problems` of their form."""

    def __init__(self, values: ValueParser) -> None:
        self._values = values
        self.problems: list[Problem] = []

    def read_profiles(self, files: Sequence[NamedFile]) -> Iterator[Profile]:
        """Yield the profile of each file. Raises SpecError if a file is too large or not UTF-8."""
        for file in choose_files(files, _PRECEDENCE):
            sections, problems = read_sections(file)
            self.problems += problems
            yield self._read_profile(sections, sections[0].place if sections else Place(file[0], 1, 1))

    def _read_profile(self, sections: list[Section], place: Place) -> Profile:
        connection = merge_sections(sections, "connection")
        kind = _get_text(connection, "type") or "ethernet"
        kind = _KINDS.get(kind, kind)
        hardware = merge_sections(sections, kind if kind != "ethernet" or _has(sections, kind) else "802-3-ethernet")
        return Profile(
            interface=self._read_interface(sections, connection, hardware, place),
            kind="partition" if hardware.find_value("parent") else kind,
            owner="" if _is_in_vrf(connection) else _get_owner(connection),
            starts_at_boot=_get_text(connection, "autoconnect") != "false",
            priority=_parse_priority(_get_text(connection, "autoconnect-priority")),
            place=place,
        )

    def _read_interface(
        self, sections: list[Section], connection: Section, hardware: Section, place: Place
    ) -> Interface:
        ip_sections = [merge_sections(sections, name) for name in ("ipv4", "ipv6")]
        mtu = hardware.find_value("mtu")
        name = connection.find_value("interface-name") or _find_literal_name(merge_sections(sections, "match"))
        return Interface(
            host=self._values.host,
            name=self._values.parse_name(name.text, name.place) if name and name.text else "",
            mac=self._read_mac(hardware),
            mtu_bytes=self._values.parse_mtu(mtu) if mtu and mtu.text != "0" else None,
            mtu_place=mtu.place if mtu else None,
            addresses=tuple(self._read_addresses(ip_sections)),
            routes=tuple(route for section in ip_sections for route in self._read_routes(section)),
            rules=tuple(rule for section in ip_sections for rule in self._read_rules(section)),
            dhcp=any(_get_text(section, "method") == "auto" for section in ip_sections),
            place=place,
            vrf=_get_owner(connection) if _is_in_vrf(connection) else "",
            link_type="infiniband" if hardware.name == "infiniband" else "ethernet",
        )

    def _read_mac(self, hardware: Section) -> str | None:
        """Return the permanent address if the profile names it, else the address that it sets."""
        scalar = hardware.find_value("mac-address") or hardware.find_value("cloned-mac-address")
        if scalar is None or scalar.text in _GENERATED_MACS or hardware.name == "infiniband":
            return None
        return self._values.parse_mac(scalar)

    def _read_addresses(self, sections: list[Section]) -> Iterator[StaticAddress]:
        known = set()
        for scalar in (scalar for section in sections for scalar in _list_matches(section, _ADDRESS)):
            text = _SEPARATOR.split(scalar.text or "")[0].strip()
            address = self._values.parse_address(Scalar(text, scalar.place))
            if address and address[:3] not in known:
                known.add(address[:3])
                yield address

    def _read_routes(self, section: Section) -> Iterator[StaticRoute]:
        """Yield the routes of [ipv4] or [ipv6]: its gateway, gateways behind addresses, and its routes."""
        default_table = _get_text(section, "route-table")
        gateways = [Scalar(_get_part(scalar, 1), scalar.place) for scalar in _list_matches(section, _ADDRESS)]
        gateways += section.list_values("gateway")
        if _get_text(section, "never-default") != "true":
            for scalar in gateways:
                if scalar.text:
                    yield from self._parse_route("default", scalar.text, scalar.place, default_table)
        texts = {key: scalar.text or "" for key, scalar in section.entries}
        for key, scalar in ((key, scalar) for key, scalar in section.entries if _ROUTE.fullmatch(key)):
            options = _read_options(texts.get(f"{key}_options", ""))
            if options.get("type", "unicast") == "unicast":
                table = options.pop("table", default_table)
                if metric := _get_part(scalar, 2):
                    options["metric"] = metric
                for route in self._parse_route(_get_part(scalar, 0), _get_part(scalar, 1), scalar.place, table):
                    extras = [f"{name} {value}" for name, value in options.items() if name not in _ROUTE_OPTIONS]
                    yield route._replace(source=parse_address_or_zero(options.get("src", "")), extras=tuple(extras))

    def _parse_route(self, destination: str, gateway: str, place: Place, table: str) -> Iterator[StaticRoute]:
        gateway = "" if gateway in {"0.0.0.0", "::"} else gateway  # noqa: S104 - it means on-link
        route = self._values.parse_route(destination, gateway, place, in_main_table=table in _MAIN_TABLE)
        if route:
            yield route._replace(table="" if route.in_main_table else table)

    def _read_rules(self, section: Section) -> Iterator[StaticRule]:
        for scalar in _list_matches(section, _RULE):
            rule = parse_rule_words(self._values, (scalar.text or "").split(), scalar.place)
            if rule:
                yield rule


def _get_owner(connection: Section) -> str:
    return _get_text(connection, "controller") or _get_text(connection, "master")


def _is_in_vrf(connection: Section) -> bool:
    return "vrf" in {_get_text(connection, "port-type"), _get_text(connection, "slave-type")}


def _find_literal_name(match: Section) -> Scalar | None:
    scalar = match.find_value("interface-name")
    text = ((scalar.text if scalar else "") or "").removesuffix(";")
    return Scalar(text, scalar.place) if scalar and text and not set(text) & set("*?[]!|&;") else None


def _list_matches(section: Section, pattern: re.Pattern[str]) -> list[Scalar]:
    return [scalar for key, scalar in section.entries if pattern.fullmatch(key) and scalar.text]


def _read_options(text: str) -> dict[str, str]:
    """Return the options of a route: {table: 100}."""
    options = (item.partition("=") for item in text.split(","))
    return {name.strip(): value.strip() for name, _, value in options}


def _get_part(scalar: Scalar, index: int) -> str:
    parts = _SEPARATOR.split(scalar.text or "")
    return parts[index].strip() if index < len(parts) else ""


def _get_text(section: Section, key: str) -> str:
    scalar = section.find_value(key)
    return (scalar.text if scalar else "") or ""


def _has(sections: list[Section], name: str) -> bool:
    return any(section.name == name for section in sections)


def _parse_priority(text: str) -> int:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 5 else 0  # noqa: PLR2004 - from -999 to 999
