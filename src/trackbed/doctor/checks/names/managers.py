"""Programs that configure interfaces by themselves and must leave the rails alone."""

import re
from collections.abc import Iterator

import yaml

from trackbed.doctor.catalogue import judge
from trackbed.doctor.checks.names.sources import iter_ethernets
from trackbed.doctor.checks.vfs.functions import iter_vfs, summarize
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

_CLOUD_INIT = "/etc/netplan/50-cloud-init.yaml"
"""File that cloud-init writes at every boot where it configures the network (cloudinit/net/netplan.py)."""
_CLOUD_CONFIG = ("/etc/cloud/cloud.cfg", "/etc/cloud/cloud.cfg.d/*.cfg")
_NM = ("nmcli", "-t", "-f", "DEVICE,STATE", "device")
_NM_FILES = "/etc/NetworkManager/system-connections"
_OURS = "trackbed-"
_SPLIT = re.compile(r"(?<!\\):")
"""nmcli -t puts a backslash before a colon in a value."""

READS = Wanted(files=(_CLOUD_INIT, *_CLOUD_CONFIG), folders=(_NM_FILES,), commands=(_NM,))


def check(view: NodeView) -> Iterator[Finding]:
    """Check each port against the programs that are installed on the host."""
    host = view.host
    if host is None:
        return
    yield from check_cloud_init(view, host)
    yield from check_network_manager(view, host)


def check_cloud_init(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that cloud-init's netplan file has none of the ports."""
    content = host.read(_CLOUD_INIT)
    if not isinstance(content, str):
        if _CLOUD_INIT in host.unreadable:
            evidence = f"{_CLOUD_INIT}: {host.unreadable[_CLOUD_INIT]}"
            yield judge("names-cloud-init-rewrites-network", view.node, None, ok=None, evidence=evidence)
        return
    is_off = any(
        _disables_network(host.read_text(path) or "") for pattern in _CLOUD_CONFIG for path in host.glob(pattern)
    )
    entries = [f"{name} {settings}".lower() for name, settings in iter_ethernets(content)]
    for port in view.iter_ports():
        names = [re.escape(name.lower()) for name in (port.netdev, port.mac, port.kernel_name) if name]
        pattern = rf"(?<![\w.-])({'|'.join(names)})(?![\w.-])"
        is_configured = any(re.search(pattern, entry) for entry in entries)
        evidence = f"{_CLOUD_INIT} {'configures' if is_configured else 'leaves out'} {port.netdev}"
        evidence += ", network: {config: disabled}" if is_off else ""
        ok = is_off or not is_configured
        yield judge("names-cloud-init-rewrites-network", view.node, port, ok=ok, evidence=evidence)


def _disables_network(text: str) -> bool:
    """Return whether a cloud-init configuration has `network: {config: disabled}`."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        return False
    network = document.get("network") if isinstance(document, dict) else None
    return isinstance(network, dict) and network.get("config") == "disabled"


def check_network_manager(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that NetworkManager manages no VFs, and no ports except those whose connections Trackbed rendered."""
    output = host.get_output(*_NM)
    if output is None:
        return  # NetworkManager is not installed, or not running: nmcli then exits with 8
    states = dict(_parse_state(line) for line in output.splitlines())
    renders_ports = any(name.startswith(_OURS) for name in host.folders.get(_NM_FILES, ()))
    for port in view.iter_ports():
        netdevs = [] if renders_ports else [port.netdev]
        netdevs += _list_vf_netdevs(host, port)
        managed = [f"{name} is {states[name]}" for name in netdevs if _is_managed(states, name)]
        evidence = f"nmcli: {summarize(managed)}" if managed else "NetworkManager leaves it alone"
        yield judge("names-networkmanager-manages-rails", view.node, port, ok=not managed, evidence=evidence)


def _list_vf_netdevs(host: Snapshot, port: PortPlan) -> list[str]:
    return [name for vf in iter_vfs(host, port.netdev) for name in vf.netdevs]


def _is_managed(states: dict[str, str], name: str) -> bool:
    return states.get(name, "unmanaged") != "unmanaged"


def _parse_state(line: str) -> tuple[str, str]:
    """Parse a line such as `rail0:connected`; a state may have a comment, as in `connected (externally)`."""
    fields = _SPLIT.split(line)
    return fields[0].replace("\\:", ":"), fields[-1]
