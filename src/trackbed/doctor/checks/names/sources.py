"""Sources of a port's name: rules of udev(7), files of systemd.link(5), set-name of netplan(5)."""

import configparser
import re
from collections.abc import Iterator
from typing import NamedTuple

import yaml

from trackbed.doctor.catalogue import judge
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

_RULES = ("/etc/udev/rules.d/*.rules", "/run/udev/rules.d/*.rules")
_LINKS = ("/etc/systemd/network/*.link", "/run/systemd/network/*.link")
_NETPLAN = "/etc/netplan/*.yaml"
_NAME_KEY = re.compile(r'\bNAME:?="([^"]*)"')
_GENERATED = "-netplan-"
"""Part of the name of a file that netplan generates; it repeats netplan's own files."""
_MATCH_KEYS = ("path", "macaddress", "permanentmacaddress")

READS = Wanted(files=(*_RULES, *_LINKS, _NETPLAN))


class NameSource(NamedTuple):
    """An entry of a file that names a device; `match` is the text that identifies the device."""

    path: str
    name: str
    match: str


def check(view: NodeView) -> Iterator[Finding]:
    """Check each port that a file names."""
    host = view.host
    if host is None:
        return
    sources = [*_iter_udev_rules(host), *_iter_link_files(host), *_iter_set_names(host)]
    for port in view.iter_ports():
        paths = sorted({source.path for source in sources if _applies(source, port)})
        if paths:
            yield judge("names-two-naming-sources", view.node, port, ok=len(paths) == 1, evidence=", ".join(paths))


def _applies(source: NameSource, port: PortPlan) -> bool:
    addresses = [address for address in (port.pci, port.mac) if address]
    return source.name == port.netdev or any(address.lower() in source.match.lower() for address in addresses)


def _iter_udev_rules(host: Snapshot) -> Iterator[NameSource]:
    for path in _glob_all(host, *_RULES):
        lines = (host.read_text(path) or "").replace("\\\n", " ").splitlines()
        for line in lines:
            key = None if line.lstrip().startswith("#") else _NAME_KEY.search(line)
            if key and 'SUBSYSTEM=="infiniband"' not in line:
                yield NameSource(path, key[1], line)


def _iter_link_files(host: Snapshot) -> Iterator[NameSource]:
    for path in _glob_all(host, *_LINKS):
        if _GENERATED in path:
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
    for path in _glob_all(host, _NETPLAN):
        for key, settings in iter_ethernets(host.read_text(path) or ""):
            if isinstance(name := settings.get("set-name"), str):
                yield NameSource(path, name, f"{key} {settings.get('match')}")


def iter_ethernets(text: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the ethernets of a netplan file with their settings; none where it is malformed."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        return
    network = document.get("network") if isinstance(document, dict) else None
    ethernets = network.get("ethernets") if isinstance(network, dict) else None
    for name, settings in ethernets.items() if isinstance(ethernets, dict) else ():
        if isinstance(settings, dict):
            yield str(name), settings


def _glob_all(host: Snapshot, *patterns: str) -> list[str]:
    return [path for pattern in patterns for path in host.glob(pattern)]
