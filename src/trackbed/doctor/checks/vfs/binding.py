"""Drivers of the virtual functions, and settings of their port that cut them off the network."""

import re
from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding, format_value
from trackbed.doctor.checks.vfs.functions import DEVICE, get_device_folder, iter_vfs, read_vf_count
from trackbed.doctor.evidence import summarize_items
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

VFIO = "vfio-pci"
_REPRESENTOR = re.compile(r"(c\d+)?pf\d+(vf|sf)\d+")
"""Port names of representors (Documentation/networking/devlink/devlink-port.rst, net/devlink/port.c)."""
_BONDS = frozenset({"bond", "team"})

READS = Wanted(files=(f"{DEVICE}/net/*/phys_port_name",), folders=(f"{DEVICE}/net",))


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that no port is in a bond; check the e-switch, drivers and state of each port with VFs."""
    for port in view.iter_ports():
        yield from check_bond(view, port)
        if view.node.common.vfs:
            yield from check_eswitch(view, host, port)
            yield from check_drivers(view, host, port)
            yield from check_port_state(view, host, port)


def check_bond(view: NodeView, port: PortPlan) -> Iterator[Finding]:
    """Check that the port is not part of a bond or team."""
    link = view.find_link(port)
    if link is None:
        return
    master = next((other for other in view.state.links if link.master and other.index == link.master), None)
    is_bonded = master is not None and master.kind in _BONDS
    evidence = f"{port.netdev} is part of {master.kind} {master.name}" if master and is_bonded else "in no bond"
    yield build_finding("vfs-pf-enslaved", view.node, port, ok=not is_bonded, evidence=evidence)


def check_eswitch(view: NodeView, host: Snapshot, port: PortPlan) -> Iterator[Finding]:
    """Check that the e-switch is not in switchdev mode, by the representors that this mode adds below the port."""
    below = f"{get_device_folder(port.netdev)}/net"
    names = {netdev: host.read_text(f"{below}/{netdev}/phys_port_name") for netdev in host.folders.get(below, ())}
    known = {netdev: name for netdev, name in names.items() if name is not None}
    representors = [f"{netdev} ({name})" for netdev, name in known.items() if _REPRESENTOR.fullmatch(name)]
    if known:
        evidence = f"representors: {summarize_items(representors)}" if representors else "no representors"
        yield build_finding("vfs-eswitch-mode-wrong", view.node, port, ok=not representors, evidence=evidence)


def check_drivers(view: NodeView, host: Snapshot, port: PortPlan) -> Iterator[Finding]:
    """Check that every VF has a driver, and none is bound to vfio-pci."""
    vfs = list(iter_vfs(host, port.netdev))
    if not vfs:
        return
    driverless = [vf.pci for vf in vfs if vf.driver is None]
    autoprobe = host.read_text(f"{get_device_folder(port.netdev)}/sriov_drivers_autoprobe")
    evidence = f"no driver: {summarize_items(driverless)}; sriov_drivers_autoprobe {format_value(autoprobe)}"
    evidence = evidence if driverless else f"{len(vfs)} have a driver"
    yield build_finding("vfs-driver-missing", view.node, port, ok=not driverless, evidence=evidence)
    passed_through = [vf.pci for vf in vfs if vf.driver == VFIO]
    evidence = f"{VFIO}: {summarize_items(passed_through) or 'none'}"
    yield build_finding("vfs-bound-to-vfio", view.node, port, ok=not passed_through, evidence=evidence)


def check_port_state(view: NodeView, host: Snapshot, port: PortPlan) -> Iterator[Finding]:
    """Check that a port with VFs is up."""
    link, count = view.find_link(port), read_vf_count(host, port.netdev)
    if link is not None and count:
        evidence = f"{port.netdev} is {'up' if link.is_up else 'down'} and has {count} VFs"
        yield build_finding("vfs-pf-down", view.node, port, ok=link.is_up, evidence=evidence)
