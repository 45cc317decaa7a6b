"""Presence of ports and GPUs on the bus, and of the ACPI tables and memory windows that they need."""

import re
from collections.abc import Iterator

from trackbed.doctor.catalogue import judge
from trackbed.doctor.finding import Finding
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
from trackbed.doctor.view import NodeView
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

ACPI = "/sys/firmware/acpi/tables"
DRIVER_GPUS = "/proc/driver/nvidia/gpus"
IOMEM = "/proc/iomem"
READS = Wanted(
    files=(f"{DEVICES}/{{pci}}/resource", f"{DEVICES}/{{pci}}/sriov_totalvfs", IOMEM),
    folders=(ACPI, DRIVER_GPUS),
)

_IOMMU_TABLES = {"DMAR", "IVRS"}
"""ACPI tables of VT-d and AMD-Vi; no setting of the firmware setup removes Arm's IORT."""
_VF_BARS = slice(7, 13)
"""Lines of `resource`: six BARs, the ROM, six BARs of the VFs (PCI_IOV_RESOURCES of include/linux/pci.h)."""
_WINDOW = re.compile(r"^([0-9a-f]+)-[0-9a-f]+ : PCI Bus ([0-9a-f]{4,}:[0-9a-f]{2})$", re.MULTILINE)
_FOUR_GIB = 1 << 32
_UNASSIGNED = "Some PCI device resources are unassigned"


def check(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check ports, GPUs, the IOMMU's table, and memory windows."""
    yield from check_ports(view, host)
    yield from check_gpus(view, host)
    yield from check_iommu_table(view, host)
    yield from check_high_windows(view, host)
    yield from check_vf_bars(view, host)


def check_ports(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that every port with a planned PCI address is on the bus."""
    devices = host.folders.get(DEVICES)
    for port in view.node.ports:
        if port.pci is None:
            continue
        ok = None if devices is None else port.pci in devices
        state = "is present" if ok else "is absent"
        evidence = f"{DEVICES} cannot be read" if devices is None else f"{port.pci} {state}"
        yield judge("bios-port-pci-absent", view.node, port, ok=ok, evidence=evidence)


def check_gpus(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that all planned GPUs are on the bus and have their driver.

    A host without any GPU is skipped, because the plan numbers GPUs on every host.
    """
    accelerators, log = list_accelerators(host), read_kernel_log(host) or ""
    if not accelerators:
        return
    planned = len({gpu for port in view.node.ports for gpu in port.gpus})
    driven = host.folders.get(DRIVER_GPUS)
    nvidia = [pci for pci in accelerators if read_attribute(host, pci, "vendor") == NVIDIA]
    xid = find_log_line(log, r"NVRM: Xid .*: 79\b")
    has_lost = driven is not None and len(driven) < len(nvidia)
    evidence = f"{len(accelerators)} GPUs on the bus, {planned} planned"
    evidence += f", {len(driven)} of {len(nvidia)} with their driver" if driven is not None else ""
    ok = len(accelerators) >= planned and not has_lost and not xid
    yield judge("bios-gpu-missing", view.node, None, ok=ok, evidence="; ".join(filter(None, (evidence, xid))))


def check_iommu_table(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that the firmware has the ACPI table of the IOMMU, where the plan uses one on x86."""
    kernel = view.node.common.kernel
    if kernel is None or not kernel.iommu or not is_x86(host):
        return
    tables = host.folders.get(ACPI)
    if tables is None:
        yield judge("bios-iommu-table-missing", view.node, None, ok=None, evidence=f"{ACPI} cannot be read")
        return
    present = sorted(_IOMMU_TABLES.intersection(tables))
    evidence = f"{', '.join(present)} is present" if present else f"neither DMAR nor IVRS in {ACPI}"
    yield judge("bios-iommu-table-missing", view.node, None, ok=bool(present), evidence=evidence)


def check_high_windows(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that buses with GPUs have a memory window above 4 GiB, since a GPU's memory does not fit below."""
    log, high = read_kernel_log(host), _find_high_buses(host)
    if log is None and high is None:
        yield judge("bios-above-4g-off", view.node, None, ok=None, evidence=describe_log_error(host))
        return
    line = find_log_line(log or "", _UNASSIGNED)
    low = sorted({find_root_bus(host, gpu) for gpu in list_accelerators(host)} - high) if high is not None else []
    problems = [line] if line else []
    problems += [f"no window above 4 GiB on bus {bus}, which has GPUs" for bus in low]
    evidence = "; ".join(problems) or describe_log_reach(log or "")
    yield judge("bios-above-4g-off", view.node, None, ok=not problems, evidence=evidence)


def _find_high_buses(host: Snapshot) -> set[str] | None:
    """Return the buses with a window above 4 GiB; None where addresses are hidden (zeros for unprivileged users)."""
    windows = [(int(start, 16), bus) for start, bus in _WINDOW.findall(host.read_text(IOMEM) or "")]
    if not any(start for start, _ in windows):
        return None
    return {bus for start, bus in windows if start >= _FOUR_GIB}


def check_vf_bars(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that the firmware assigned memory to the ports' VFs."""
    if not view.node.common.vfs:
        return
    for port, pci in iter_functions(view, host):
        bars = (read_attribute(host, pci, "resource") or "").splitlines()[_VF_BARS]
        if not bars or not host.read_number(f"{DEVICES}/{pci}/sriov_totalvfs"):
            continue
        assigned = [bar for bar in bars if all(int(address, 16) for address in bar.split()[:2])]
        if assigned:
            evidence = f"VF memory at {assigned[0].split()[0]}"
        else:
            shortage = rf"{re.escape(pci)}: not enough MMIO resources for SR-IOV"
            line = find_log_line(read_kernel_log(host) or "", shortage)
            evidence = "; ".join(filter(None, (f"{DEVICES}/{pci}/resource: all VF BARs are zero", line)))
        yield judge("bios-vf-bars-unassigned", view.node, port, ok=bool(assigned), evidence=evidence)
