"""Pods that hold virtual functions, from the records of kubelet and the SR-IOV plugin, and leaked VFs.

    /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint   kubelet's allocations: pod -> PCI addresses
    /var/lib/kubelet/pods                                         one folder for each pod on the node
    /var/lib/cni/sriov/pci/ADDRESS                                sriov-cni's record: the namespace that a VF moved to

kubelet's socket (pod-resources) has the same data but is not a file, so it is missing from an archive.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.checks.vfs.binding import VFIO
from trackbed.doctor.checks.vfs.functions import iter_vfs, read_vf_count
from trackbed.doctor.evidence import summarize_items
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
PODS = "/var/lib/kubelet/pods"
RECORDS = "/var/lib/cni/sriov/pci"
NAMESPACES = "/run/netns"

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")

READS = Wanted(files=(CHECKPOINT, f"{RECORDS}/*"), folders=(PODS, RECORDS, NAMESPACES))


@dataclass(frozen=True, slots=True)
class HeldFunction:
    """A PCI function that a pod holds; `holder` is the pod or its namespace, as text."""

    pci: str
    holder: str


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check for VFs that were removed while pods held them, and for VFs that leaked into a namespace."""
    if not view.node.common.vfs:
        return
    held = list(iter_held_functions(host))
    for port in view.iter_ports():
        if read_vf_count(host, port.netdev) is not None:
            yield check_removed_vfs(view, host, port, held)
            yield check_leaked_vfs(view, host, port, held)


def iter_held_functions(host: Snapshot) -> Iterator[HeldFunction]:
    """Yield the PCI functions that existing pods and namespaces hold."""
    pods, namespaces = host.folders.get(PODS, ()), host.folders.get(NAMESPACES, ())
    for entry in _parse_checkpoint(host):
        if entry.get("PodUID") in pods:
            for address in _iter_pci_addresses(entry.get("DeviceIDs")):
                yield HeldFunction(address, f"pod {entry['PodUID']}")
    for address in host.folders.get(RECORDS, ()):
        namespace = (host.read_text(f"{RECORDS}/{address}") or "").rpartition("/")[2]
        if namespace in namespaces:
            yield HeldFunction(address, f"namespace {namespace}")


def _parse_checkpoint(host: Snapshot) -> list[dict[str, Any]]:
    """Return the PodDeviceEntries of kubelet's checkpoint (pkg/kubelet/cm/devicemanager/checkpoint).

    The list is empty if the checkpoint is absent or malformed.
    """
    with suppress(ValueError, TypeError, KeyError):
        entries = json.loads(host.read_text(CHECKPOINT) or "{}")["Data"]["PodDeviceEntries"] or []
        return [entry for entry in entries if isinstance(entry, dict)]
    return []


def _iter_pci_addresses(device_ids: Any) -> Iterator[str]:  # noqa: ANN401 - JSON of another program
    """Yield the PCI addresses among device ids, which are lists by NUMA node (before kubelet 1.20: one list)."""
    lists = device_ids.values() if isinstance(device_ids, dict) else [device_ids]
    for ids in lists:
        yield from (device for device in ids or () if isinstance(device, str) and _ADDRESS.fullmatch(device))


def check_removed_vfs(view: NodeView, host: Snapshot, port: PortPlan, held_functions: list[HeldFunction]) -> Finding:
    """Check that all VFs that pods hold still exist."""
    present = {vf.pci for other in view.iter_ports() for vf in iter_vfs(host, other.netdev)}
    removed = [
        f"{function.pci} of {function.holder}"
        for function in held_functions
        if function.pci not in present and _belongs_to_port(view, host, port, function.pci)
    ]
    evidence = f"not on the host: {summarize_items(removed)}" if removed else "all VFs that pods hold exist"
    return build_finding("vfs-removed-under-pods", view.node, port, ok=not removed, evidence=evidence)


def _belongs_to_port(view: NodeView, host: Snapshot, port: PortPlan, vf_address: str) -> bool:
    """Return whether a removed VF belonged to this port.

    A VF is on its port's bus or on one of the following buses, so its port has the highest PCI address below the VF's.
    """
    addresses = {other.netdev: host.find_pci(other.netdev) or other.pci or "" for other in view.iter_ports()}
    below = [(address, netdev) for netdev, address in addresses.items() if address and address < vf_address]
    return max(below, default=("", ""))[1] == port.netdev


def check_leaked_vfs(view: NodeView, host: Snapshot, port: PortPlan, held_functions: list[HeldFunction]) -> Finding:
    """Check that VFs without an interface on the host are in pods."""
    away = [vf.pci for vf in iter_vfs(host, port.netdev) if vf.driver not in {None, VFIO} and not vf.netdevs]
    known = {function.pci for function in held_functions}
    leaked = [pci for pci in away if pci not in known]
    if not away:
        return build_finding("vfs-leaked-in-namespace", view.node, port, ok=True, evidence="all VFs are on the host")
    if CHECKPOINT not in host.files:
        evidence = f"in another namespace: {summarize_items(away)}; kubelet's record of pods is missing"
        return build_finding("vfs-leaked-in-namespace", view.node, port, ok=None, evidence=evidence)
    evidence = (
        f"in another namespace and in no pod: {summarize_items(leaked)}"
        if leaked
        else f"in pods: {summarize_items(away)}"
    )
    return build_finding("vfs-leaked-in-namespace", view.node, port, ok=not leaked, evidence=evidence)
