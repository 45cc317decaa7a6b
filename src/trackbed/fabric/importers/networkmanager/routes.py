"""route-* and route6-* files: arguments of `ip route`, or numbered ADDRESS, NETMASK and GATEWAY."""

import re
from collections.abc import Iterator

from trackbed.fabric.importers.interface import StaticRoute, StaticRule
from trackbed.fabric.importers.networkmanager.netmask import parse_netmask
from trackbed.fabric.importers.networkmanager.shell import Variables, iter_lines, read_variables
from trackbed.fabric.importers.policy import parse_rule_words
from trackbed.fabric.importers.source import NamedFile
from trackbed.fabric.importers.values import ValueParser, parse_address_or_zero
from trackbed.fabric.model.problems import Place, Problem

_NUMBERED = re.compile(rb"^[ \t]*ADDRESS[0-9]+=", re.MULTILINE)
_ADDRESS = re.compile(r"ADDRESS([0-9]+)")
_MAIN_TABLE = {"", "254", "main"}
_ROUTE_OPTIONS = {"via", "dev", "table", "src", "proto", "scope"}
_NO_GATEWAY_KINDS = {"blackhole", "unreachable", "prohibit", "throw", "local", "broadcast", "multicast", "nat"}


class RouteReader:
    """Reads the route files of one host."""

    def __init__(self, values: ValueParser) -> None:
        self._values = values

    def read_routes(self, file: NamedFile, problems: list[Problem]) -> Iterator[StaticRoute]:
        """Yield the routes of a file. Raises SpecError if the file is too large or not UTF-8."""
        if _NUMBERED.search(file[1]):
            yield from self._read_numbered(read_variables(file, problems))
            return
        for number, line in iter_lines(file):
            yield from self._read_line(line.partition("#")[0].split(), Place(file[0], number, 1))

    def read_rules(self, file: NamedFile) -> Iterator[StaticRule]:
        """Yield the rules of a file, in the words of ip-rule(8). Raises SpecError as `read_routes` does."""
        for number, line in iter_lines(file):
            words = line.partition("#")[0].split()
            rule = parse_rule_words(self._values, words, Place(file[0], number, 1)) if words else None
            if rule:
                yield rule

    def _read_numbered(self, variables: Variables) -> Iterator[StaticRoute]:
        for key, scalar in variables.items():
            match = _ADDRESS.fullmatch(key)
            if match is None:
                continue
            netmask, gateway = variables.get(f"NETMASK{match[1]}"), variables.get(f"GATEWAY{match[1]}")
            prefix = parse_netmask(netmask.text or "") if netmask else 32
            via = (gateway.text if gateway else "") or ""
            destination = f"{scalar.text}/{'' if prefix is None else prefix}"
            yield from self._parse_route(destination, via, scalar.place)

    def _read_line(self, words: list[str], place: Place) -> Iterator[StaticRoute]:
        """Yield the route of `[to] DESTINATION [via GATEWAY] [dev NAME] [table TABLE] ...`."""
        if not words or words[0] in _NO_GATEWAY_KINDS:
            return
        words = words[words[0] in {"to", "unicast"} :]
        options = dict(zip(words[1::2], words[2::2], strict=False))
        destination = words[0] if words else ""
        via = options.get("via", "")
        is_main = options.get("table", "") in _MAIN_TABLE
        for route in self._parse_route(destination, via, place, in_main_table=is_main):
            yield route._replace(
                table="" if is_main else options["table"],
                source=parse_address_or_zero(options.get("src", "")),
                extras=tuple(f"{name} {value}" for name, value in options.items() if name not in _ROUTE_OPTIONS),
            )

    def _parse_route(
        self, destination: str, via: str, place: Place, *, in_main_table: bool = True
    ) -> Iterator[StaticRoute]:
        route = self._values.parse_route(destination, via, place, in_main_table=in_main_table)
        if route:
            yield route
