"""What drives the virtual functions, and whether the port they hang on lets them speak."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.doctor.checks.vfs.functions import DEVICE, get_device_folder, iter_vfs, read_vf_count, summarize
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.fabric.plan.plan import PortPlan
    from trackbed.host.snapshot.snapshot import Snapshot

VFIO = "vfio-pci"
_REPRESENTOR = re.compile(r"(c\d+)?pf\d+(vf|sf)\d+")
"""Port names of representors (Documentation/networking/devlink/devlink-port.rst, net/devlink/port.c)."""
_MERGING = frozenset({"bond", "team"})

READS = Wanted(files=(f"{DEVICE}/net/*/phys_port_name",), folders=(f"{DEVICE}/net",))


def check(view: NodeView) -> Iterator[Finding]:
    """Judge drivers, e-switch and port of each port with VFs, and that no port is merged with others."""
    host = view.host
    if host is None:
        return
    for port in view.iter_ports():
        yield from _enslaved(view, port)
        if view.node.common.vfs:
            yield from _eswitch(view, host, port)
            yield from _drivers(view, host, port)
            yield from _up(view, host, port)


def _enslaved(view: NodeView, port: PortPlan) -> Iterator[Finding]:
    link = view.find_link(port)
    if link is None:
        return
    master = next((one for one in view.state.links if link.master and one.index == link.master), None)
    merged = master is not None and master.kind in _MERGING
    evidence = f"{port.netdev} is part of {master.kind} {master.name}" if master and merged else "in no bond"
    yield judge("vfs-pf-enslaved", view.node, port, ok=not merged, evidence=evidence)


def _eswitch(view: NodeView, host: Snapshot, port: PortPlan) -> Iterator[Finding]:
    """Told by the representors that switchdev mode has below the port; without VFs the mode does no harm."""
    below = f"{get_device_folder(port.netdev)}/net"
    read = {name: host.text(f"{below}/{name}/phys_port_name") for name in host.folders.get(below, ())}
    names = {name: text for name, text in read.items() if text is not None}
    found = [f"{name} ({text})" for name, text in names.items() if _REPRESENTOR.fullmatch(text)]
    if names:
        evidence = f"representors: {summarize(found)}" if found else "no representors"
        yield judge("vfs-eswitch-mode-wrong", view.node, port, ok=not found, evidence=evidence)


def _drivers(view: NodeView, host: Snapshot, port: PortPlan) -> Iterator[Finding]:
    there = list(iter_vfs(host, port.netdev))
    if not there:
        return
    without = [vf.pci for vf in there if vf.driver is None]
    probes = host.text(f"{get_device_folder(port.netdev)}/sriov_drivers_autoprobe")
    evidence = (
        f"no driver: {summarize(without)}; sriov_drivers_autoprobe {probes}" if without else f"{len(there)} driven"
    )
    yield judge("vfs-driver-missing", view.node, port, ok=not without, evidence=evidence)
    taken = [vf.pci for vf in there if vf.driver == VFIO]
    yield judge("vfs-bound-to-vfio", view.node, port, ok=not taken, evidence=f"{VFIO}: {summarize(taken) or 'none'}")


def _up(view: NodeView, host: Snapshot, port: PortPlan) -> Iterator[Finding]:
    link = view.find_link(port)
    if link is not None and read_vf_count(host, port.netdev):
        evidence = f"{port.netdev} is {'up' if link.up else 'down'} and has {read_vf_count(host, port.netdev)} VFs"
        yield judge("vfs-pf-down", view.node, port, ok=link.up, evidence=evidence)
