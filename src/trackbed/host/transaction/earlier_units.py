"""Units of systemd that match a planned port before Trackbed's unit does, which has no effect then.

Of .network and .link files the first by name counts, whatever its folder, and a file of /etc hides those of its name in
the other folders (systemd.network(5), systemd.link(5)). A [Match] section with a condition that is not compared here
counts as none, because a warning must be right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from trackbed.host.machine import Machine
from trackbed.kernel.netlink.links import Link

_FOLDERS = ("/etc/systemd/network", "/run/systemd/network", "/usr/lib/systemd/network")
_SUFFIXES = (".link", ".network")
_IB_MAC_CHARACTERS = 59
"""Length of an InfiniBand hardware address, 20 octets with colons."""


def iter_earlier_units(
    machine: Machine, ports: Mapping[str, Link], files: Iterable[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each unit of others that precedes those among `files`, with the planned names of ports that it matches."""
    names = [PurePosixPath(path.replace(".network.d/", ".network/")) for path in files]
    for suffix in _SUFFIXES:
        written = [place.name for name in names for place in (name, name.parent) if place.suffix == suffix]
        for path in _list_units(machine, suffix) if written else ():
            if PurePosixPath(path).name >= min(written):
                continue
            conditions = _read_conditions(machine, path)
            matched = tuple(
                netdev for netdev, link in ports.items() if _is_match(conditions, _read_values(machine, netdev, link))
            )
            if matched:
                yield path, matched


def _list_units(machine: Machine, suffix: str) -> list[str]:
    """List the paths of the units that count, in order of their names."""
    by_name: dict[str, str] = {}
    for folder in _FOLDERS:
        for place in machine.locate(folder).glob(f"*{suffix}"):
            by_name.setdefault(place.name, f"{folder}/{place.name}")
    return [by_name[name] for name in sorted(by_name)]


def _read_conditions(machine: Machine, path: str) -> Mapping[str, list[str]]:
    """Return the patterns of each key in the [Match] sections of a unit and its drop-ins.

    An exclamation mark before the first of a line inverts all of that line.
    """
    name = PurePosixPath(path).name
    drop_ins = {
        place.name: f"{folder}/{name}.d/{place.name}"
        for folder in reversed(_FOLDERS)
        for place in machine.locate(f"{folder}/{name}.d").glob("*.conf")
    }
    conditions: dict[str, list[str]] = defaultdict(list)
    for part in (path, *(drop_ins[key] for key in sorted(drop_ins))):
        section = ""
        for line in map(str.strip, machine.read_lines(part)):
            key, equals, value = line.partition("=")
            if line.startswith("["):
                section = line.strip("[]")
            elif equals and section == "Match" and not line.startswith(("#", ";")):
                sign = "!" if value.strip().startswith("!") else ""
                conditions[key.strip()] += [f"{sign}{word.removeprefix('!')}" for word in value.split()]
    return conditions


def _read_values(machine: Machine, netdev: str, link: Link) -> Mapping[str, tuple[str, ...]]:
    """Return the values of a port by key; the .network file is chosen when the port has its planned name."""
    driver = ""
    with suppress(OSError):
        driver = machine.locate(f"/sys/class/net/{link.name}/device/driver").readlink().name
    return {
        "Name": (netdev,),
        "OriginalName": (link.name, *link.altnames),
        "Type": ("infiniband" if len(link.mac) == _IB_MAC_CHARACTERS else "ether",),
        "Driver": (driver,),
        "MACAddress": (link.mac,),
        "PermanentMACAddress": (link.permanent_mac or "",),
        "Path": (f"pci-{link.parent_device}",),
    }


def _is_match(conditions: Mapping[str, list[str]], values: Mapping[str, tuple[str, ...]]) -> bool:
    return (
        bool(conditions)
        and conditions.keys() <= values.keys()
        and all(_fits(patterns, values[key]) for key, patterns in conditions.items() if patterns)
    )


def _fits(patterns: list[str], values: tuple[str, ...]) -> bool:
    """Return whether a pattern fits, if there are any, and no inverted one does (systemd's net_condition_test_strv)."""
    inverted = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    plain = [pattern for pattern in patterns if not pattern.startswith("!")]
    return (not plain or _fits_any(plain, values)) and not _fits_any(inverted, values)


def _fits_any(patterns: list[str], values: tuple[str, ...]) -> bool:
    return any(fnmatchcase(value.lower(), pattern.lower()) for value in values for pattern in patterns)
