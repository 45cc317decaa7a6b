"""Files that give a port its name: rules of udev(7), files of systemd.link(5), set-name of netplan(5)."""

import configparser
import re
from collections.abc import Iterator
from typing import NamedTuple

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.finding import Finding
from trackbed.doctor.host_yaml import parse_host_yaml
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.transaction import netplan_entries

_RULES = ("/etc/udev/rules.d/*.rules", "/run/udev/rules.d/*.rules")
_LINKS = ("/etc/systemd/network/*.link", "/run/systemd/network/*.link")
_NETPLAN = "/etc/netplan/*.yaml"
_NAME_KEY = re.compile(r'\bNAME:?="([^"]*)"')
_GENERATED_INFIX = "-netplan-"
"""Part of the names of files that netplan generates; they are skipped, because netplan's own files are read."""
_MATCH_KEYS = ("path", "macaddress", "permanentmacaddress")

READS = Wanted(files=(*_RULES, *_LINKS, _NETPLAN))


class NameSource(NamedTuple):
    """A rule or section of a file that names a device; `match` is the text that identifies the device."""

    path: str
    name: str
    match: str


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that at most one file names each port."""
    sources = [*_iter_udev_rules(host), *_iter_link_files(host), *_iter_set_names(host)]
    for port in view.iter_ports():
        paths = sorted({source.path for source in sources if _names_port(source, port)})
        if paths:
            yield build_finding(
                "names-two-naming-sources", view.node, port, ok=len(paths) == 1, evidence=", ".join(paths)
            )


def _names_port(source: NameSource, port: PortPlan) -> bool:
    """Return whether a source gives the port's name to a device, or any name to the port's device."""
    addresses = [address for address in (port.pci, port.mac) if address]
    return source.name == port.netdev or any(address.lower() in source.match.lower() for address in addresses)


def _iter_udev_rules(host: Snapshot) -> Iterator[NameSource]:
    """Yield the udev rules that name network devices, except those that netplan generated."""
    for path in host.glob(*_RULES):
        if _GENERATED_INFIX in path:
            continue
        lines = (host.read_text(path) or "").replace("\\\n", " ").splitlines()
        for line in lines:
            key = None if line.lstrip().startswith("#") else _NAME_KEY.search(line)
            if key and 'SUBSYSTEM=="infiniband"' not in line:
                yield NameSource(path, key[1], line)


def _iter_link_files(host: Snapshot) -> Iterator[NameSource]:
    """Yield the .link files that name network devices, except those that netplan generated."""
    for path in host.glob(*_LINKS):
        if _GENERATED_INFIX in path:
            continue
        parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
        try:
            parser.read_string(host.read_text(path) or "")
        except configparser.Error:
            continue  # systemd.link(5) skips lines that it cannot parse; configparser rejects the file
        name = parser.get("Link", "Name", fallback="")
        if name:
            yield NameSource(path, name, " ".join(parser.get("Match", key, fallback="") for key in _MATCH_KEYS))


def _iter_set_names(host: Snapshot) -> Iterator[NameSource]:
    """Yield the entries of netplan files that have `set-name`, except those that Trackbed overrides.

    A later file overrides the values of an earlier one (netplan(5)); Trackbed's gives the name of its .link file.
    """
    entries: dict[str, dict[str, object]] = {}
    paths: dict[str, str] = {}
    for path in sorted(host.glob(_NETPLAN)):
        for key, settings in iter_ethernets(host.read_text(path) or ""):
            entries[key] = entries.get(key, {}) | settings
            paths[key] = path if "set-name" in settings else paths.get(key, path)
    for key, settings in entries.items():
        if isinstance(name := settings.get("set-name"), str) and paths[key] != netplan_entries.FILE:
            yield NameSource(paths[key], name, f"{key} {settings.get('match')}")


def iter_ethernets(text: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield (name, settings) for each entry in `ethernets` of a netplan file; nothing if it is malformed."""
    document = parse_host_yaml(text)
    network = document.get("network") if isinstance(document, dict) else None
    ethernets = network.get("ethernets") if isinstance(network, dict) else None
    for name, settings in ethernets.items() if isinstance(ethernets, dict) else ():
        if isinstance(settings, dict):
            yield str(name), settings
