"""Whether ports and GPUs are on the bus, and whether the firmware left tables and memory windows for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.doctor.hardware import (
    DEVICES,
    NVIDIA,
    describe_log_error,
    describe_log_reach,
    find_log_line,
    find_root_bus,
    is_x86,
    iter_functions,
    list_accelerators,
    read_attribute,
    read_kernel_log,
)
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.host.snapshot.snapshot import Snapshot

ACPI = "/sys/firmware/acpi/tables"
DRIVER_GPUS = "/proc/driver/nvidia/gpus"
IOMEM = "/proc/iomem"
READS = Wanted(
    files=(f"{DEVICES}/{{pci}}/resource", f"{DEVICES}/{{pci}}/sriov_totalvfs", IOMEM),
    folders=(ACPI, DRIVER_GPUS),
)

_IOMMU_TABLES = {"DMAR", "IVRS"}
"""Of VT-d and of AMD-Vi; Arm's IORT is never left out because of a switch in the firmware setup."""
_VF_BARS = slice(7, 13)
"""Lines of `resource`: six BARs, the ROM, six BARs of the VFs (PCI_IOV_RESOURCES of include/linux/pci.h)."""
_WINDOW = re.compile(r"^([0-9a-f]+)-[0-9a-f]+ : PCI Bus ([0-9a-f]{4,}:[0-9a-f]{2})$", re.MULTILINE)
_FOUR_GIB = 1 << 32
_NO_ROOM = "Some PCI device resources are unassigned"


def check(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Judge what is there at all."""
    yield from _ports(view, host)
    yield from _gpus(view, host)
    yield from _iommu_table(view, host)
    yield from _windows(view, host)
    yield from _vf_bars(view, host)


def _ports(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    present = host.folders.get(DEVICES)
    for port in view.node.ports:
        if port.pci is None:
            continue
        ok = None if present is None else port.pci in present
        evidence = (
            f"{DEVICES} cannot be read" if present is None else f"{port.pci} {'is there' if ok else 'is not there'}"
        )
        yield judge("bios-port-pci-absent", view.node, port, ok=ok, evidence=evidence)


def _gpus(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """A host without any GPU is judged by none: the plan numbers GPUs whether there are any or not."""
    here, log = list_accelerators(host), read_kernel_log(host) or ""
    if not here:
        return
    planned = len({gpu for port in view.node.ports for gpu in port.gpus})
    driven = host.folders.get(DRIVER_GPUS)
    nvidia = [pci for pci in here if read_attribute(host, pci, "vendor") == NVIDIA]
    fallen = find_log_line(log, r"NVRM: Xid .*: 79\b")
    lost = driven is not None and len(driven) < len(nvidia)
    evidence = f"{len(here)} GPUs on the bus, {planned} planned"
    evidence += f", {len(driven)} of {len(nvidia)} with their driver" if driven is not None else ""
    ok = len(here) >= planned and not lost and not fallen
    yield judge("bios-gpu-missing", view.node, None, ok=ok, evidence="; ".join(filter(None, (evidence, fallen))))


def _iommu_table(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    kernel = view.node.common.kernel
    if kernel is None or not kernel.iommu or not is_x86(host):
        return
    tables = host.folders.get(ACPI)
    if tables is None:
        yield judge("bios-iommu-table-missing", view.node, None, ok=None, evidence=f"{ACPI} cannot be read")
        return
    found = sorted(_IOMMU_TABLES.intersection(tables))
    evidence = f"{', '.join(found)} is there" if found else f"neither DMAR nor IVRS in {ACPI}"
    yield judge("bios-iommu-table-missing", view.node, None, ok=bool(found), evidence=evidence)


def _windows(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """A GPU's memory is far larger than what fits below 4 GiB, so its root bus needs a window above."""
    log, high = read_kernel_log(host), _high_windows(host)
    if log is None and high is None:
        yield judge("bios-above-4g-off", view.node, None, ok=None, evidence=describe_log_error(host))
        return
    said = find_log_line(log or "", _NO_ROOM)
    low = sorted({find_root_bus(host, gpu) for gpu in list_accelerators(host)} - high) if high is not None else []
    told = [said] if said else []
    told += [f"no window above 4 GiB on bus {bus}, which has GPUs" for bus in low]
    yield judge(
        "bios-above-4g-off", view.node, None, ok=not told, evidence="; ".join(told) or describe_log_reach(log or "")
    )


def _high_windows(host: Snapshot) -> set[str] | None:
    """Buses with a window above 4 GiB; None where the addresses are hidden (zeros, for who is not root)."""
    windows = [(int(start, 16), bus) for start, bus in _WINDOW.findall(host.text(IOMEM) or "")]
    if not any(start for start, _ in windows):
        return None
    return {bus for start, bus in windows if start >= _FOUR_GIB}


def _vf_bars(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    if not view.node.common.vfs:
        return
    for port, pci in iter_functions(view, host):
        lines = (read_attribute(host, pci, "resource") or "").splitlines()[_VF_BARS]
        if not lines or not host.number(f"{DEVICES}/{pci}/sriov_totalvfs"):
            continue
        placed = [line for line in lines if all(int(word, 16) for word in line.split()[:2])]
        evidence = (
            f"VF memory at {placed[0].split()[0]}" if placed else f"{DEVICES}/{pci}/resource: all VF BARs are zero"
        )
        said = (
            ""
            if placed
            else find_log_line(read_kernel_log(host) or "", rf"{re.escape(pci)}: not enough MMIO resources for SR-IOV")
        )
        told = "; ".join(filter(None, (evidence, said)))
        yield judge("bios-vf-bars-unassigned", view.node, port, ok=bool(placed), evidence=told)
