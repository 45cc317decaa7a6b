"""Programs that configure interfaces on their own and must leave the rails alone: cloud-init, NetworkManager."""

import re
from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.checks.names.sources import iter_ethernets
from trackbed.doctor.checks.vfs.functions import iter_vfs
from trackbed.doctor.evidence import summarize_items
from trackbed.doctor.finding import Finding
from trackbed.doctor.host_yaml import parse_host_yaml
from trackbed.doctor.view import NodeView
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.transaction import netplan_entries

_CLOUD_INIT = "/etc/netplan/50-cloud-init.yaml"
"""File that cloud-init writes at every boot if it configures the network (cloudinit/net/netplan.py)."""
_CLOUD_CONFIG = ("/etc/cloud/cloud.cfg", "/etc/cloud/cloud.cfg.d/*.cfg")
_NM = ("nmcli", "-t", "-f", "DEVICE,STATE", "device")
_NOT_RUNNING = 8
"""Exit status of nmcli(1) where NetworkManager is not running."""
_NM_FILES = "/etc/NetworkManager/system-connections"
_TRACKBED_PREFIX = "trackbed-"
_FIELD_SEPARATOR = re.compile(r"(?<!\\):")
"""Separator of fields; nmcli -t escapes a colon in a value with a backslash."""

READS = Wanted(files=(_CLOUD_INIT, netplan_entries.FILE, *_CLOUD_CONFIG), folders=(_NM_FILES,), commands=(_NM,))


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that cloud-init and NetworkManager leave the ports alone."""
    yield from check_cloud_init(view, host)
    yield from check_network_manager(view, host)


def check_cloud_init(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that cloud-init's netplan file configures none of the ports, or that cloud-init no longer writes it."""
    content = host.read(_CLOUD_INIT)
    if not isinstance(content, str):
        if _CLOUD_INIT in host.unreadable:
            evidence = f"{_CLOUD_INIT}: {host.unreadable[_CLOUD_INIT]}"
            yield build_finding("names-cloud-init-rewrites-network", view.node, None, ok=None, evidence=evidence)
        return
    is_off = any(_disables_network(host.read_text(path) or "") for path in host.glob(*_CLOUD_CONFIG))
    overridden = dict(iter_ethernets(host.read_text(netplan_entries.FILE) or ""))
    entries = [f"{name} {settings}".lower() for name, settings in iter_ethernets(content) if name not in overridden]
    for port in view.iter_ports():
        names = [re.escape(name.lower()) for name in (port.netdev, port.mac, port.kernel_name) if name]
        pattern = rf"(?<![\w.-])({'|'.join(names)})(?![\w.-])"
        is_configured = any(re.search(pattern, entry) for entry in entries)
        evidence = f"{_CLOUD_INIT} {'configures' if is_configured else 'leaves out'} {port.netdev}"
        evidence += ", network: {config: disabled}" if is_off else ""
        ok = is_off or not is_configured
        yield build_finding("names-cloud-init-rewrites-network", view.node, port, ok=ok, evidence=evidence)


def _disables_network(text: str) -> bool:
    """Return whether a cloud-init configuration has `network: {config: disabled}`."""
    document = parse_host_yaml(text)
    network = document.get("network") if isinstance(document, dict) else None
    return isinstance(network, dict) and network.get("config") == "disabled"


def check_network_manager(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that NetworkManager manages no VFs, and no ports except those whose connections Trackbed rendered."""
    outcome = host.get_outcome(*_NM)
    if not isinstance(outcome, ProgramResult) or outcome.status == _NOT_RUNNING:
        return
    output = host.get_output(*_NM)
    if output is None:
        return
    states = dict(_parse_device_state(line) for line in output.splitlines())
    renders_ports = any(name.startswith(_TRACKBED_PREFIX) for name in host.folders.get(_NM_FILES, ()))
    for port in view.iter_ports():
        netdevs = [] if renders_ports else [port.netdev]
        netdevs += [name for vf in iter_vfs(host, port.netdev) for name in vf.netdevs]
        managed = [f"{name} is {states[name]}" for name in netdevs if states.get(name, "unmanaged") != "unmanaged"]
        evidence = f"nmcli: {summarize_items(managed)}" if managed else "NetworkManager leaves it alone"
        yield build_finding("names-networkmanager-manages-rails", view.node, port, ok=not managed, evidence=evidence)


def _parse_device_state(line: str) -> tuple[str, str]:
    """Parse `rail0:connected` into device and state; a state may have a suffix, as in `connected (externally)`."""
    fields = _FIELD_SEPARATOR.split(line)
    return fields[0].replace("\\:", ":"), fields[-1]
