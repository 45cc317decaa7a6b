"""Programs that configure interfaces by themselves, and shall leave the rails alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import yaml

from trackbed.doctor.catalogue import judge
from trackbed.doctor.checks.names.sources import iter_ethernets
from trackbed.doctor.checks.vfs.functions import iter_vfs, summarize
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.fabric.plan.plan import PortPlan
    from trackbed.host.snapshot.snapshot import Snapshot

_CLOUD_INIT = "/etc/netplan/50-cloud-init.yaml"
"""What cloud-init writes at every boot where it configures the network (cloudinit/net/netplan.py)."""
_CLOUD_CONFIG = ("/etc/cloud/cloud.cfg", "/etc/cloud/cloud.cfg.d/*.cfg")
_NM = ("nmcli", "-t", "-f", "DEVICE,STATE", "device")
_NM_FILES = "/etc/NetworkManager/system-connections"
_OURS = "trackbed-"
_SPLIT = re.compile(r"(?<!\\):")
"""nmcli -t puts a backslash before a colon of a value."""

READS = Wanted(files=(_CLOUD_INIT, *_CLOUD_CONFIG), folders=(_NM_FILES,), commands=(_NM,))


def check(view: NodeView) -> Iterator[Finding]:
    """Judge each port; a program that is not on the host leaves nothing to say."""
    host = view.host
    if host is None:
        return
    yield from _cloud_init(view, host)
    yield from _network_manager(view, host)


def _cloud_init(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    written = host.read(_CLOUD_INIT)
    if not isinstance(written, str):
        if _CLOUD_INIT in host.unreadable:
            evidence = f"{_CLOUD_INIT}: {host.unreadable[_CLOUD_INIT]}"
            yield judge("names-cloud-init-rewrites-network", view.node, None, ok=None, evidence=evidence)
        return
    off = any(_disabled(host.text(path) or "") for pattern in _CLOUD_CONFIG for path in host.glob(pattern))
    marks = [f"{name} {device}".lower() for name, device in iter_ethernets(written)]
    for port in view.iter_ports():
        known = [re.escape(one.lower()) for one in (port.netdev, port.mac, port.kernel_name) if one]
        inside = any(re.search(rf"(?<![\w.-])({'|'.join(known)})(?![\w.-])", mark) for mark in marks)
        evidence = f"{_CLOUD_INIT} {'configures' if inside else 'leaves out'} {port.netdev}"
        evidence += ", network: {config: disabled}" if off else ""
        yield judge("names-cloud-init-rewrites-network", view.node, port, ok=off or not inside, evidence=evidence)


def _disabled(text: str) -> bool:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        return False
    network = document.get("network") if isinstance(document, dict) else None
    return isinstance(network, dict) and network.get("config") == "disabled"


def _network_manager(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Ports are NetworkManager's where Trackbed itself has put their connections there; VFs never are."""
    said = host.said(*_NM)
    if said is None:
        return  # not installed, or not running: nmcli then ends with 8
    states = dict(_state(line) for line in said.splitlines())
    planned = any(name.startswith(_OURS) for name in host.folders.get(_NM_FILES, ()))
    for port in view.iter_ports():
        taken = [f"{name} is {states[name]}" for name in _names(host, port, planned=planned) if _managed(states, name)]
        evidence = f"nmcli: {summarize(taken)}" if taken else "NetworkManager leaves it alone"
        yield judge("names-networkmanager-manages-rails", view.node, port, ok=not taken, evidence=evidence)


def _names(host: Snapshot, port: PortPlan, *, planned: bool) -> list[str]:
    mine = [] if planned else [port.netdev]
    return [*mine, *(name for vf in iter_vfs(host, port.netdev) for name in vf.netdevs)]


def _managed(states: dict[str, str], name: str) -> bool:
    return states.get(name, "unmanaged") != "unmanaged"


def _state(line: str) -> tuple[str, str]:
    """One line as `rail0:connected`; the state of a device may have words behind it, as in `connected (externally)`."""
    parts = _SPLIT.split(line)
    return parts[0].replace("\\:", ":"), parts[-1]
