"""Pods that hold virtual functions, from the records of kubelet and the SR-IOV plugin, and leaked VFs.

    /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint   kubelet's allocations: pod -> devices
    /var/lib/kubelet/pods                                         one folder for each pod on the node
    /var/lib/cni/sriov/pci/ADDRESS                                sriov-cni's record: the namespace that a VF moved to

kubelet's socket (pod-resources) has the same data but is not a file, so it is missing from an archive. Neither knows a
pod that asks by annotation (stack native, whose agent knows it) or by a ResourceClaim, so that a VF of which none of
these says anything is leaked only where sriov-cni keeps its records, or the agent has answered.
"""

import json
import re
from collections.abc import Iterator, Mapping
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
_RAIL_VF = re.compile(r"rail([0-9]{1,3})-([0-9]{1,5})")
"""The id of a VF in stack native (`trackbed.node.rails.choice`)."""

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
    held = list(iter_held_functions(view, host))
    for port in view.iter_ports():
        if read_vf_count(host, port.netdev) is not None:
            yield check_removed_vfs(view, host, port, held)
            yield check_leaked_vfs(view, host, port)


def iter_held_functions(view: NodeView, host: Snapshot) -> Iterator[HeldFunction]:
    """Yield the PCI functions that existing pods and namespaces hold."""
    pods, namespaces = host.folders.get(PODS, ()), host.folders.get(NAMESPACES, ())
    by_rail = {(port.rail, vf.index): vf.pci for port in view.iter_ports() for vf in iter_vfs(host, port.netdev)}
    for entry in _parse_checkpoint(host):
        if entry.get("PodUID") in pods:
            for address in _iter_pci_addresses(entry.get("DeviceIDs"), by_rail):
                yield HeldFunction(address, f"pod {entry['PodUID']}")
    for pod in view.pods:
        for rail, interface in pod.rails.items():
            if (rail, interface.vf) in by_rail:
                yield HeldFunction(by_rail[rail, interface.vf], f"pod {pod.name}")
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


def _iter_pci_addresses(device_ids: Any, by_rail: Mapping[tuple[int, int], str]) -> Iterator[str]:  # noqa: ANN401 - JSON of another program
    """Yield the PCI addresses of devices, whose ids are lists by NUMA node (before kubelet 1.20: one list).

    `by_rail` has the addresses of VFs by rail and number.
    """
    lists = device_ids.values() if isinstance(device_ids, dict) else [device_ids]
    for device in (device for ids in lists for device in ids or () if isinstance(device, str)):
        rail_vf = _RAIL_VF.fullmatch(device)
        if _ADDRESS.fullmatch(device):
            yield device
        elif rail_vf and (number := (int(rail_vf[1]), int(rail_vf[2]))) in by_rail:
            yield by_rail[number]


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


def check_leaked_vfs(view: NodeView, host: Snapshot, port: PortPlan) -> Finding:
    """Check that VFs without an interface on the host are in pods."""
    away = [vf.pci for vf in iter_vfs(host, port.netdev) if vf.driver not in {None, VFIO} and not vf.netdevs]
    if not away:
        return build_finding("vfs-leaked-in-namespace", view.node, port, ok=True, evidence="all VFs are on the host")
    leaked, doubt = find_lost_functions(view, host, away)
    if leaked:
        evidence = f"in another namespace and in no pod: {summarize_items(leaked)}"
        evidence = f"in another namespace: {summarize_items(leaked)}; {doubt}" if doubt else evidence
        ok = None if doubt else False
        return build_finding("vfs-leaked-in-namespace", view.node, port, ok=ok, evidence=evidence)
    evidence = f"in pods: {summarize_items(away)}"
    return build_finding("vfs-leaked-in-namespace", view.node, port, ok=True, evidence=evidence)


def find_lost_functions(view: NodeView, host: Snapshot, away: list[str]) -> tuple[list[str], str]:
    """Return the functions of `away` that no pod is known to hold, and why a pod may nevertheless, or ""."""
    held = {function.pci for function in iter_held_functions(view, host)}
    lost = [pci for pci in away if pci not in held]
    if CHECKPOINT not in host.files:
        return lost, "kubelet's record of pods is missing"
    if not view.has_agent and RECORDS not in host.folders:
        return lost, "no record says so of pods that ask by an annotation or a ResourceClaim"
    return lost, ""
