"""Which pods have which virtual functions, as kubelet and the SR-IOV plugin write it down, and what is left over.

    /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint   kubelet's allocations: pod -> PCI addresses
    /var/lib/kubelet/pods                                         a folder for each pod that kubelet still has
    /var/lib/cni/sriov/pci/ADDRESS                                sriov-cni's record: the namespace a VF was put into

kubelet's own socket (pod-resources) tells the same, but is no file.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trackbed.doctor.catalogue import judge
from trackbed.doctor.checks.vfs.binding import VFIO
from trackbed.doctor.checks.vfs.functions import iter_vfs, read_vf_count, summarize
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.fabric.plan.plan import PortPlan
    from trackbed.host.snapshot.snapshot import Snapshot

CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
PODS = "/var/lib/kubelet/pods"
RECORDS = "/var/lib/cni/sriov/pci"
NAMESPACES = "/run/netns"

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")

READS = Wanted(files=(CHECKPOINT, f"{RECORDS}/*"), folders=(PODS, RECORDS, NAMESPACES))


@dataclass(frozen=True, slots=True)
class HeldFunction:
    """A PCI function that somebody has, and who says so."""

    pci: str
    holder: str


def check(view: NodeView) -> Iterator[Finding]:
    """Judge the VFs that pods hold and those that nobody holds; nothing to say on a host without either record."""
    host = view.host
    if host is None or not view.node.common.vfs:
        return
    held = None if CHECKPOINT in host.unreadable else list(iter_held_functions(host))
    for port in view.iter_ports():
        if read_vf_count(host, port.netdev) is not None:
            yield from _removed(view, host, port, held)
            yield from _leaked(view, host, port, held)


def iter_held_functions(host: Snapshot) -> Iterator[HeldFunction]:
    """Functions that pods hold which are still there."""
    alive, named = host.folders.get(PODS, ()), host.folders.get(NAMESPACES, ())
    for entry in _entries(host):
        if entry.get("PodUID") in alive:
            for address in _addresses(entry.get("DeviceIDs")):
                yield HeldFunction(address, f"pod {entry['PodUID']}")
    for address in host.folders.get(RECORDS, ()):
        namespace = (host.text(f"{RECORDS}/{address}") or "").rpartition("/")[2]
        if namespace in named:
            yield HeldFunction(address, f"namespace {namespace}")


def _entries(host: Snapshot) -> list[dict[str, Any]]:
    """PodDeviceEntries of kubelet's checkpoint (pkg/kubelet/cm/devicemanager/checkpoint)."""
    with suppress(ValueError, TypeError, KeyError):
        found = json.loads(host.text(CHECKPOINT) or "{}")["Data"]["PodDeviceEntries"] or []
        return [one for one in found if isinstance(one, dict)]
    return []


def _addresses(devices: Any) -> Iterator[str]:  # noqa: ANN401 - JSON of somebody else
    """Device ids of an entry: a list for each NUMA node, or (before 1.20) one list."""
    lists = devices.values() if isinstance(devices, dict) else [devices]
    for one in lists:
        yield from (text for text in one or () if isinstance(text, str) and _ADDRESS.fullmatch(text))


def _removed(view: NodeView, host: Snapshot, port: PortPlan, held: list[HeldFunction] | None) -> Iterator[Finding]:
    """A VF shares domain and bus with its port, or has one of the next buses; ports differ in theirs."""
    if held is None:
        why = host.unreadable[CHECKPOINT]
        yield judge("vfs-removed-under-pods", view.node, port, ok=None, evidence=f"{CHECKPOINT}: {why}")
        return
    there = {vf.pci for one in view.iter_ports() for vf in iter_vfs(host, one.netdev)}
    gone = [f"{one.pci} of {one.holder}" for one in held if one.pci not in there and _of(view, host, port, one.pci)]
    evidence = f"not on the host: {summarize(gone)}" if gone else "all VFs that pods hold are there"
    yield judge("vfs-removed-under-pods", view.node, port, ok=not gone, evidence=evidence)


def _of(view: NodeView, host: Snapshot, port: PortPlan, vf: str) -> bool:
    """Whether a VF that is gone was this port's: the last port whose address is below it."""
    ports = {one.netdev: host.pci(one.netdev) or one.pci or "" for one in view.iter_ports()}
    below = [(address, netdev) for netdev, address in ports.items() if address and address < vf]
    return max(below, default=("", ""))[1] == port.netdev


def _leaked(view: NodeView, host: Snapshot, port: PortPlan, held: list[HeldFunction] | None) -> Iterator[Finding]:
    away = [vf.pci for vf in iter_vfs(host, port.netdev) if vf.driver not in {None, VFIO} and not vf.netdevs]
    known = {one.pci for one in held or ()}
    lost = [pci for pci in away if pci not in known]
    if not away:
        yield judge("vfs-leaked-in-namespace", view.node, port, ok=True, evidence="all VFs are on the host")
    elif held is None or CHECKPOINT not in host.files:
        evidence = f"in another namespace: {summarize(away)}; nothing here says which pods have them"
        yield judge("vfs-leaked-in-namespace", view.node, port, ok=None, evidence=evidence)
    else:
        evidence = f"in another namespace and in no pod: {summarize(lost)}" if lost else f"in pods: {summarize(away)}"
        yield judge("vfs-leaked-in-namespace", view.node, port, ok=not lost, evidence=evidence)
