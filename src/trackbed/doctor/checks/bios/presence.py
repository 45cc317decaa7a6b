"""Presence of ports and GPUs on the bus, and of the ACPI tables and memory windows that they need."""

import re
from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.finding import Finding
from trackbed.doctor.hardware import (
    DEVICES,
    NVIDIA,
    describe_log_coverage,
    describe_log_error,
    find_log_line,
    find_root_bus,
    is_x86,
    iter_pci_functions,
    list_accelerators,
    read_kernel_log,
    read_pci_attribute,
    read_vf_memory,
)
from trackbed.doctor.view import NodeView
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

ACPI = "/sys/firmware/acpi/tables"
DRIVER_GPUS = "/proc/driver/nvidia/gpus"
IOMEM = "/proc/iomem"
READS = Wanted(files=(IOMEM,), folders=(ACPI, DRIVER_GPUS))

_IOMMU_TABLES = {"DMAR", "IVRS"}
"""ACPI tables of VT-d and AMD-Vi, which a setting in the firmware setup removes; Arm's IORT is always present."""
_WINDOW = re.compile(r"^([0-9a-f]+)-[0-9a-f]+ : PCI Bus ([0-9a-f]{4,}:[0-9a-f]{2})$", re.MULTILINE)
_FOUR_GIB = 1 << 32
_UNASSIGNED = r"{pci}: BAR \d+(?: \[mem [^\]\n]{{1,80}}\])?: failed to assign"
"""Message of pci_assign_resource for a memory BAR (drivers/pci/setup-res.c); the size stood behind it before 6.10."""


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check for ports, GPUs, the IOMMU's ACPI table, high memory windows, and memory for VFs."""
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
        yield build_finding("bios-port-pci-absent", view.node, port, ok=ok, evidence=evidence)


def check_gpus(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that all planned GPUs are on the bus and have their driver.

    A host without GPUs is skipped, because every node of a plan has GPU numbers.
    """
    accelerators, log = list_accelerators(host), read_kernel_log(host)
    if not accelerators:
        return
    planned = len({gpu for port in view.node.ports for gpu in port.gpus})
    driven = host.folders.get(DRIVER_GPUS)
    nvidia = [pci for pci in accelerators if read_pci_attribute(host, pci, "vendor") == NVIDIA]
    xid = find_log_line(log or "", r"NVRM: Xid .*: 79\b")  # Xid 79: the GPU has fallen off the bus
    has_lost = driven is not None and len(driven) < len(nvidia)
    evidence = f"{len(accelerators)} GPUs on the bus, {planned} planned"
    evidence += f", {len(driven)} of {len(nvidia)} with their driver" if driven is not None else ""
    is_sound = len(accelerators) >= planned and not has_lost and not xid
    ok = None if is_sound and log is None else is_sound
    line = describe_log_error(host) if ok is None else xid
    yield build_finding("bios-gpu-missing", view.node, None, ok=ok, evidence="; ".join(filter(None, (evidence, line))))


def check_iommu_table(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that the firmware has the ACPI table of the IOMMU, if the plan uses an IOMMU on x86."""
    kernel = view.node.common.kernel
    if kernel is None or not kernel.iommu or not is_x86(host):
        return
    tables = host.folders.get(ACPI)
    if tables is None:
        yield build_finding("bios-iommu-table-missing", view.node, None, ok=None, evidence=f"{ACPI} cannot be read")
        return
    present = sorted(_IOMMU_TABLES.intersection(tables))
    evidence = f"{', '.join(present)} is present" if present else f"neither DMAR nor IVRS in {ACPI}"
    yield build_finding("bios-iommu-table-missing", view.node, None, ok=bool(present), evidence=evidence)


def check_high_windows(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that buses with GPUs have a memory window above 4 GiB, because a GPU's memory does not fit below it.

    Where the kernel hides its windows, a GPU or port without memory says so. That some resource of some device is
    unassigned says nothing: a bridge's window of I/O ports often is.
    """
    log, high = read_kernel_log(host), _find_high_buses(host)
    if log is None and high is None:
        yield build_finding("bios-above-4g-off", view.node, None, ok=None, evidence=describe_log_error(host))
        return
    functions = [*list_accelerators(host), *(pci for _, pci in iter_pci_functions(view, host))]
    pattern = "|".join(_UNASSIGNED.format(pci=re.escape(pci)) for pci in functions)
    line = find_log_line(log or "", pattern) if functions and high is None else ""
    low = sorted({find_root_bus(host, gpu) for gpu in list_accelerators(host)} - high) if high is not None else []
    problems = [line] if line else []
    problems += [f"no window above 4 GiB on bus {bus}, which has GPUs" for bus in low]
    evidence = "; ".join(problems) or describe_log_coverage(log or "")
    yield build_finding("bios-above-4g-off", view.node, None, ok=not problems, evidence=evidence)


def _find_high_buses(host: Snapshot) -> set[str] | None:
    """Return the buses with a memory window above 4 GiB; None if the kernel hides addresses (unprivileged user)."""
    windows = [(int(start, 16), bus) for start, bus in _WINDOW.findall(host.read_text(IOMEM) or "")]
    if not any(start for start, _ in windows):
        return None
    return {bus for start, bus in windows if start >= _FOUR_GIB}


def check_vf_bars(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that the firmware assigned memory to the ports' VFs."""
    if not view.node.common.vfs:
        return
    for port, pci in iter_pci_functions(view, host):
        bars = read_vf_memory(host, pci)
        if not bars:
            continue
        address = next(filter(None, bars), 0)
        if address:
            evidence = f"VF memory at {address:#018x}"
        else:
            shortage = rf"{re.escape(pci)}: not enough MMIO resources for SR-IOV"
            line = find_log_line(read_kernel_log(host) or "", shortage)
            evidence = "; ".join(filter(None, (f"{DEVICES}/{pci}/resource: all VF BARs are zero", line)))
        yield build_finding("bios-vf-bars-unassigned", view.node, port, ok=bool(address), evidence=evidence)
