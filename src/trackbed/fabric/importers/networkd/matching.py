"""Which files of networkd apply to which port.

A port is known by what a [Match] section names literally. The first .link file and the first .network file whose
[Match] fits are used, as in systemd.link(5) and systemd.network(5).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from trackbed.fabric.importers.networkd.units import Unit
from trackbed.fabric.importers.sections import Section
from trackbed.fabric.model.problems import Problem, SpecError

_GLOB_CHARACTERS = frozenset("*?[]!")
_PORT_TYPES = {"ether", "infiniband"}
MAX_PORTS = 1000
"""Limit of the ports of a host."""


@dataclass(slots=True)
class MatchedPort:
    """A port: its names by the key of [Match] that compares them, and its files."""

    name: str = ""
    original_name: str = ""
    mac: str = ""
    path: str = ""
    link: Unit | None = None
    network: Unit | None = None


def find_ports(units: Iterable[Unit]) -> list[MatchedPort]:
    """Return the ports that the files name literally, with the files that apply to each.

    Raises SpecError beyond MAX_PORTS.
    """
    units = list(units)
    links = [unit for unit in units if unit.name.endswith(".link")]
    networks = [unit for unit in units if unit.name.endswith(".network")]
    ports: list[MatchedPort] = []
    for unit in links:
        _add_ports(ports, unit)
    for port in ports:
        port.link = next((unit for unit in links if _is_match(unit.match, port)), None)
        new_name = port.link.merge("Link").find_value("Name") if port.link else None
        port.name = (new_name.text if new_name else None) or port.name or port.original_name
    for unit in networks:
        _add_ports(ports, unit)
    for port in ports:
        port.link = port.link or next((unit for unit in links if _is_match(unit.match, port)), None)
        port.network = next((unit for unit in networks if _is_match(unit.match, port)), None)
    return [port for port in ports if port.network]


def _add_ports(ports: list[MatchedPort], unit: Unit) -> None:
    """Add the ports that a file names and that are not yet known."""
    for port in iter_literal_ports(unit.match):
        known = next((other for other in ports if _is_same(port, other)), None)
        if known is None and len(ports) == MAX_PORTS:
            message = f"the files name more than {MAX_PORTS} ports"
            raise SpecError([Problem("too-large", message, place=unit.place)])
        if known is None:
            ports.append(port)
        elif port.mac and not known.mac:
            known.mac = port.mac


def iter_literal_ports(match: Section) -> Iterator[MatchedPort]:
    """Yield the ports that a [Match] section names without a pattern."""
    macs = [mac for mac in _list_words(match, "PermanentMACAddress", "MACAddress") if not set(mac) & _GLOB_CHARACTERS]
    names = [name for name in _list_words(match, "Name") if not set(name) & _GLOB_CHARACTERS]
    original_names = [name for name in _list_words(match, "OriginalName") if not set(name) & _GLOB_CHARACTERS]
    paths = [path for path in _list_words(match, "Path") if not set(path) & _GLOB_CHARACTERS]
    macs = [normalize_mac(mac) for mac in macs]
    if names or original_names:
        mac = macs[0] if len(macs) == 1 else ""
        yield from (MatchedPort(name=name, mac=mac) for name in names)
        yield from (MatchedPort(original_name=name, mac=mac) for name in original_names)
    elif macs:
        yield from (MatchedPort(mac=mac) for mac in macs)
    else:
        yield from (MatchedPort(path=path) for path in paths)


def _is_same(port: MatchedPort, other: MatchedPort) -> bool:
    if port.mac and other.mac:
        return port.mac == other.mac
    pairs = ((port.name, other.name), (port.original_name, other.original_name), (port.path, other.path))
    return any(first and first == second for first, second in pairs)


def _is_match(match: Section, port: MatchedPort) -> bool:
    """Return whether a [Match] section fits a port. Keys whose value of the port is unknown fit if another key does."""
    known = False
    values = {
        "Name": port.name, "OriginalName": port.original_name or port.name, "PermanentMACAddress": port.mac,
        "MACAddress": port.mac, "Path": port.path,
    }  # fmt: skip
    for key, value in values.items():
        patterns = _list_words(match, key)
        if patterns and value:
            if not _fits(patterns, value, is_mac=key.endswith("MACAddress")):
                return False
            known = True
    types = _list_words(match, "Type")
    if types and not set(types) & _PORT_TYPES:
        return False
    return known or (bool(types) and {key for key, _ in match.entries} <= {"Type"})


def _fits(patterns: list[str], value: str, *, is_mac: bool) -> bool:
    if is_mac:
        return value in {normalize_mac(pattern) for pattern in patterns}
    negated = patterns[0].startswith("!")
    patterns = [patterns[0].removeprefix("!"), *patterns[1:]]
    return any(fnmatchcase(value, pattern) for pattern in patterns) != negated


def _list_words(match: Section, *keys: str) -> list[str]:
    return [word for key in keys for scalar in match.list_values(key) for word in (scalar.text or "").split()]


def normalize_mac(mac: str) -> str:
    """Return a MAC address in lower case with colons; accepts the forms 00-11-.., 0011.2233.4455."""
    digits = "".join(character for character in mac.lower() if character not in ":-.")
    is_separated = len(digits) % 2 == 0 and len(digits) in {12, 40} and mac.count(".") in {0, 2}
    return ":".join(digits[i : i + 2] for i in range(0, len(digits), 2)) if is_separated else mac.lower()
