"""Entries of netplan's files for a planned port, as MAAS and cloud-init write one for each port of a machine.

An entry with `match: macaddress` and `set-name` has a udev rule and a .link file that precede Trackbed's, and a
.network file that precedes it, too (write_rules_file, write_link_file and _netplan_netdef_write_networkd of netplan's
src/networkd.c, 0.106 to 1.2.2). The entry stays in its file. Trackbed overrides it in two files of its own:

    /etc/netplan/91-trackbed-entries.yaml                                gives it the planned name, see netplan(5)
    /etc/systemd/network/10-netplan-ENTRY.network.d/90-trackbed.conf     takes the port out of its .network file

A later file of netplan overrides the scalars of an earlier one, but not its lists of addresses and routes; hence the
second file. systemd.network(5): an inverted pattern excludes what another pattern matches (net_condition_test_strv).

netplan itself says which entry matches a port, in the files that it generates, so no YAML is read here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import NamedTuple
from urllib.parse import unquote

from trackbed.host.machine import Machine
from trackbed.host.network_manager import ManagerError
from trackbed.host.setting import HEAD
from trackbed.kernel.netlink.links import Link

FILE = "/etc/netplan/91-trackbed-entries.yaml"
_GENERATED = "/run/systemd/network"
_PREFIX = "10-netplan-"
_MASTERS = frozenset({"Bond", "Bridge", "VRF", "VLAN", "MACVLAN", "MACVTAP", "IPVLAN", "Tunnel", "VXLAN", "Xfrm"})
"""Keys of [Network] that make the port a part of another interface, or another interface a part of it."""


class Entry(NamedTuple):
    """An entry of netplan: how it matches ports, the name that it gives, and the interface that it is a part of."""

    name: str
    macs: frozenset[str]
    drivers: tuple[str, ...]
    names: tuple[str, ...]
    """Patterns of names, which networkd compares after udev has renamed the port."""
    is_for_networkd: bool
    """Whether networkd configures the ports that it matches."""
    set_name: str
    master: str


def render_overrides(machine: Machine, ports: Mapping[str, Link], planned: frozenset[str]) -> dict[str, str]:
    """Return the files that override the entries for ports, by path; empty if there are none.

    `ports` are the planned ports that exist, and `planned` the names of all of them, also of those in pods. Raises
    ManagerError if an entry cannot be overridden.
    """
    entries = {entry: _find_port(machine, entry, ports, planned) for entry in list_entries(machine)}
    taken = {entry.name: netdev for entry, netdev in entries.items() if netdev}
    if not taken:
        return {}
    lines = [
        f"    {json.dumps(name)}: {{renderer: networkd, optional: true, set-name: {json.dumps(netdev)}}}\n"
        for name, netdev in sorted(taken.items())
    ]
    drop_ins = {
        f"/etc/systemd/network/{name}.network.d/90-trackbed.conf": f"{HEAD}\n[Match]\nName=!{netdev}\n"
        for name, netdev in ((_to_stem(machine, name), netdev) for name, netdev in taken.items())
    }
    return {FILE: f"{HEAD}network:\n  version: 2\n  ethernets:\n{''.join(lines)}", **drop_ins}


def list_entries(machine: Machine) -> tuple[Entry, ...]:
    """Return the entries for which netplan has generated files."""
    folder = machine.locate(_GENERATED)
    stems = {path.stem for path in folder.glob(f"{_PREFIX}*") if path.suffix in {".link", ".network"}}
    return tuple(_read_entry(machine, stem) for stem in sorted(stems))


def list_generated_files(machine: Machine) -> frozenset[str]:
    """Return the paths of the files that netplan has generated for networkd and udev."""
    return frozenset(f"{_GENERATED}/{path.name}" for path in machine.locate(_GENERATED).glob(f"{_PREFIX}*"))


def _to_stem(machine: Machine, name: str) -> str:
    stems = {path.stem for path in machine.locate(_GENERATED).glob(f"{_PREFIX}*")}
    return next(stem for stem in stems if unquote(stem) == f"{_PREFIX}{name}")


def _read_entry(machine: Machine, stem: str) -> Entry:
    link, network = (_read_keys(machine, f"{_GENERATED}/{stem}{suffix}") for suffix in (".link", ".network"))
    macs = [keys.get(("Match", key), "") for keys in (link, network) for key in ("PermanentMACAddress", "MACAddress")]
    masters = [f"{key.lower()} {value}" for (section, key), value in network.items() if key in _MASTERS]
    return Entry(
        unquote(stem.removeprefix(_PREFIX)),
        frozenset(" ".join(macs).lower().split()),
        tuple(network.get(("Match", "Driver"), "").split()),
        tuple(network.get(("Match", "Name"), "").split()),
        bool(network),
        link.get(("Link", "Name"), ""),
        next(iter(masters), ""),
    )


def _read_keys(machine: Machine, path: str) -> dict[tuple[str, str], str]:
    """Return the last value of each section and key of a file that netplan generated."""
    section, keys = "", {}
    for line in machine.read_lines(path):
        key, equals, value = line.partition("=")
        if line.startswith("["):
            section = line.strip("[]")
        elif equals:
            keys[section, key] = value
    return keys


def _find_port(machine: Machine, entry: Entry, ports: Mapping[str, Link], planned: frozenset[str]) -> str:
    """Return the planned port that an entry matches, or "". Raises ManagerError if the entry cannot be overridden.

    An entry with the name of a port is Trackbed's own.
    """
    if entry.name in planned:
        return ""
    netdev = next((name for name, link in ports.items() if entry.macs & {link.mac, link.permanent_mac}), "")
    if not netdev and entry.set_name in planned and entry.macs:
        netdev = entry.set_name
    if netdev and entry.master:
        raise ManagerError(
            f"netplan's entry {entry.name} makes {netdev} of the plan a part of another interface ({entry.master});"
            " take the port out of that, or out of the Fabric"
        )
    if entry.is_for_networkd and not entry.macs:
        _check_patterns(machine, entry, ports)
    return netdev


def _check_patterns(machine: Machine, entry: Entry, ports: Mapping[str, Link]) -> None:
    """Raise ManagerError if an entry without a MAC address will match a port by patterns, or matches all ports."""
    for netdev, link in ports.items():
        driver = ""
        with suppress(OSError):
            driver = machine.locate(f"/sys/class/net/{link.name}/device/driver").readlink().name
        if _matches(driver, entry.drivers) and _matches(netdev, entry.names):
            patterns = " ".join((*entry.drivers, *entry.names)) or "everything"
            raise ManagerError(
                f"netplan's entry {entry.name} will match {netdev} of the plan (now {link.name}), as it matches"
                f" {patterns}; let it match the MAC addresses of its own ports only, and run `netplan generate`"
            )


def _matches(text: str, patterns: tuple[str, ...]) -> bool:
    return not patterns or any(fnmatchcase(text, pattern) for pattern in patterns)
