"""One RDMA device for each port, with the nodes that programs open, and no device that nobody has."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trackbed.doctor.catalogue import judge
from trackbed.doctor.checks.rdma.stack import CLASSES, NODES, RDMA_OF
from trackbed.doctor.checks.vfs import owners
from trackbed.doctor.checks.vfs.functions import READS as FUNCTIONS
from trackbed.doctor.checks.vfs.functions import get_device_folder, iter_vfs, summarize
from trackbed.doctor.rdma_devices import READS as DEVICES
from trackbed.doctor.rdma_devices import RdmaDevice, list_rdma_devices
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.fabric.plan.plan import PortPlan
    from trackbed.host.snapshot.snapshot import Snapshot

_VERBS = "/sys/class/infiniband_verbs/uverbs*/ibdev"
_MAD = "/sys/class/infiniband_mad/umad*/ibdev"

READS = Wanted(files=(_VERBS, _MAD)) | DEVICES | FUNCTIONS | owners.READS


def check(view: NodeView) -> Iterator[Finding]:
    """Judge each port: hardware that does RDMA, and soft-RoCE where another port has it."""
    host = view.host
    if host is None or "infiniband" not in host.folders.get(CLASSES, ()):
        return
    found = {port.rail: list_rdma_devices(host, port.netdev) for port in view.iter_ports()}
    soft = any(one.is_soft for devices in found.values() for one in devices)
    nodes = {pattern: _by_device(host, pattern) for pattern in (_VERBS, _MAD)}
    for port in view.iter_ports():
        if view.find_link(port) is None:
            continue  # step names tells of it
        have, driver = found[port.rail], host.target(f"{get_device_folder(port.netdev)}/driver")
        if have or soft or driver in RDMA_OF:
            yield from _device(view, port, have, driver)
        yield from _nodes(view, port, _Nodes(host, nodes[_VERBS], nodes[_MAD]), have)
        yield from _lost(view, host, port)


def _device(view: NodeView, port: PortPlan, have: tuple[RdmaDevice, ...], driver: str | None) -> Iterator[Finding]:
    names = ", ".join(one.name for one in have) or "none"
    evidence = f"{port.netdev} (driver {driver}) has RDMA devices: {names}"
    yield judge("rdma-device-missing-for-port", view.node, port, ok=len(have) == 1, evidence=evidence)


class _Nodes(NamedTuple):
    """RDMA device -> name of its node, of either kind; whether the node itself is there, `host` tells."""

    host: Snapshot
    verbs: Mapping[str, str]
    mad: Mapping[str, str]


def _nodes(view: NodeView, port: PortPlan, nodes: _Nodes, have: tuple[RdmaDevice, ...]) -> Iterator[Finding]:
    """Programs of InfiniBand's management are of use with hardware only."""
    hard = tuple(one for one in have if not one.is_soft)
    for fault, known, devices in (
        ("rdma-uverbs-node-missing", nodes.verbs, have),
        ("rdma-umad-node-missing", nodes.mad, hard),
    ):
        lacks = [f"{one.name}: {known.get(one.name, 'no node')}" for one in devices if not _there(nodes, known, one)]
        if devices:
            evidence = (
                f"not in {NODES}: {summarize(lacks)}" if lacks else summarize([known[one.name] for one in devices])
            )
            yield judge(fault, view.node, port, ok=not lacks, evidence=evidence)


def _by_device(host: Snapshot, pattern: str) -> Mapping[str, str]:
    """RDMA device -> name of its node."""
    return {name: path.split("/")[-2] for path in host.glob(pattern) if (name := host.text(path)) is not None}


def _there(nodes: _Nodes, known: Mapping[str, str], device: RdmaDevice) -> bool:
    return known.get(device.name) in nodes.host.folders.get(NODES, ())


def _lost(view: NodeView, host: Snapshot, port: PortPlan) -> Iterator[Finding]:
    """In exclusive mode a device goes with its pod, and comes back when the pod's namespace ends."""
    mine = [vf for vf in iter_vfs(host, port.netdev) if vf.driver in RDMA_OF]
    if view.node.common.rdma_mode != "exclusive" or not mine:
        return
    away = [vf.pci for vf in mine if not vf.rdma]
    if away and owners.CHECKPOINT not in host.files:
        evidence = f"not on the host: devices of {summarize(away)}; nothing here says which pods have them"
        yield judge("rdma-device-lost-in-namespace", view.node, port, ok=None, evidence=evidence)
        return
    held = {one.pci for one in owners.iter_held_functions(host)}
    lost = [pci for pci in away if pci not in held]
    evidence = (
        f"not on the host and in no pod: devices of {summarize(lost)}"
        if lost
        else f"in pods: {summarize(away) or 'none'}"
    )
    yield judge("rdma-device-lost-in-namespace", view.node, port, ok=not lost, evidence=evidence)
