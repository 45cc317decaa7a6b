"""Who gives a port its name: rules of udev(7), files of systemd.link(5), set-name of netplan(5)."""

from __future__ import annotations

import configparser
import re
from typing import TYPE_CHECKING

import yaml

from trackbed.doctor.catalogue import judge
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.fabric.plan.plan import PortPlan
    from trackbed.host.snapshot.snapshot import Snapshot

_RULES = ("/etc/udev/rules.d/*.rules", "/run/udev/rules.d/*.rules")
_LINKS = ("/etc/systemd/network/*.link", "/run/systemd/network/*.link")
_NETPLAN = "/etc/netplan/*.yaml"
_NAMED = re.compile(r'\bNAME:?="([^"]*)"')
_OF_NETPLAN = "-netplan-"
"""In the names of files that netplan generates: they say again what its own files say."""
_PATH, _MACS = "path", ("macaddress", "permanentmacaddress")

READS = Wanted(files=(*_RULES, *_LINKS, _NETPLAN))


def check(view: NodeView) -> Iterator[Finding]:
    """Judge each port of which at least one source is known."""
    host = view.host
    if host is None:
        return
    named = [*_rules(host), *_links(host), *_set_names(host)]
    for port in view.iter_ports():
        paths = sorted({path for path, name, marks in named if _is(port, name, marks)})
        if paths:
            yield judge("names-two-naming-sources", view.node, port, ok=len(paths) == 1, evidence=", ".join(paths))


Named = tuple[str, str, str]
"""The file, the name it gives, and by what it knows the device."""


def _is(port: PortPlan, name: str, marks: str) -> bool:
    known = [one for one in (port.pci, port.mac) if one]
    return name == port.netdev or any(one.lower() in marks.lower() for one in known)


def _rules(host: Snapshot) -> Iterator[Named]:
    for path in _paths(host, *_RULES):
        lines = (host.text(path) or "").replace("\\\n", " ").splitlines()
        for line in lines:
            given = None if line.lstrip().startswith("#") else _NAMED.search(line)
            if given and 'SUBSYSTEM=="infiniband"' not in line:
                yield path, given[1], line


def _links(host: Snapshot) -> Iterator[Named]:
    for path in _paths(host, *_LINKS):
        if _OF_NETPLAN in path:
            continue
        parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
        try:
            parser.read_string(host.text(path) or "")
        except configparser.Error:
            continue  # systemd.link(5) reads on after what it does not understand; we cannot
        name = parser.get("Link", "Name", fallback="")
        if name:
            yield path, name, " ".join(parser.get("Match", key, fallback="") for key in (_PATH, *_MACS))


def _set_names(host: Snapshot) -> Iterator[Named]:
    for path in _paths(host, _NETPLAN):
        for name, device in iter_ethernets(host.text(path) or ""):
            if isinstance(given := device.get("set-name"), str):
                yield path, given, f"{name} {device.get('match')}"


def iter_ethernets(text: str) -> Iterator[tuple[str, dict[str, object]]]:
    """The ethernets of a file of netplan; none where it is no such file."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        return
    network = document.get("network") if isinstance(document, dict) else None
    found = network.get("ethernets") if isinstance(network, dict) else None
    for name, device in found.items() if isinstance(found, dict) else ():
        if isinstance(device, dict):
            yield str(name), device


def _paths(host: Snapshot, *patterns: str) -> list[str]:
    return [path for pattern in patterns for path in host.glob(pattern)]
