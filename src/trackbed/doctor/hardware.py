"""PCI functions, the bridges above them, and the kernel log, read from a host's snapshot for checks of several steps.

    root bus 0000:10 -- bridge 0000:10:00.0 -- bus 0000:11 -- NIC 0000:11:00.0

`/sys/class/pci_bus/BUS/device` links to the bridge above a bus (on a root bus to `pci0000:10`, which is not a PCI
function). Following these links avoids parsing the device paths of sysfs.
"""

import re
from collections.abc import Iterator

from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.discover.read import read_kfd_indexes
from trackbed.host.discover.wanted import KFD
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

DEVICES = "/sys/bus/pci/devices"
BUSES = "/sys/class/pci_bus"
_LOG = ("dmesg",)

READS = Wanted(
    files=(
        "/proc/cpuinfo",
        f"{DEVICES}/*/vendor",
        f"{DEVICES}/*/class",
        f"{KFD}/*/properties",
        *(f"{DEVICES}/{{pci}}/{name}" for name in ("device", "resource", "sriov_totalvfs")),
    ),
    links=("/sys/class/net/{netdev}/device", f"{DEVICES}/{{pci}}/driver", f"{BUSES}/*/device"),
    folders=(DEVICES,),
    commands=(_LOG,),
)

NVIDIA_NIC, NVIDIA, AMD = "0x15b3", "0x10de", "0x1002"
"""PCI vendor ids: Mellanox, which NVIDIA's NICs still use; NVIDIA; AMD."""
_ACCELERATORS = {(NVIDIA, "0x0302"), (AMD, "0x1200"), (AMD, "0x0380")}
"""(vendor, class) of GPUs: 3D controller, processing accelerator, other display controller."""
_VF_BARS = slice(7, 13)
"""The VFs' BARs among the lines of `resource`, after six BARs and the ROM (PCI_IOV_RESOURCES, include/linux/pci.h)."""
_FUNCTION = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_TIMESTAMP = re.compile(r"\[\s*(\d+)\.\d+\]")
_FIRST_LINE_SECONDS = 5
"""A log whose first line is from before this time, in seconds after boot, is complete."""


def iter_pci_functions(view: NodeView, host: Snapshot) -> Iterator[tuple[PortPlan, str]]:
    """Yield each planned port with its PCI address; skip ports whose address is unknown or not on the bus.

    Ports inside pods are included.
    """
    for port in view.node.ports:
        pci = port.pci or host.find_pci(port.netdev)
        if pci is not None and f"{DEVICES}/{pci}/vendor" in host.files:
            yield port, pci


def read_pci_attribute(host: Snapshot, pci: str, name: str) -> str | None:
    """Return the content of a sysfs attribute of a PCI function; None if it does not exist."""
    return host.read_text(f"{DEVICES}/{pci}/{name}")


def read_device_id(host: Snapshot, pci: str) -> tuple[str | None, str | None]:
    """Return the PCI vendor id and device id of a function; None if unreadable."""
    return read_pci_attribute(host, pci, "vendor"), read_pci_attribute(host, pci, "device")


def find_driver(host: Snapshot, pci: str) -> str | None:
    """Return the name of the driver bound to a PCI function; None if it has no driver."""
    return host.get_target(f"{DEVICES}/{pci}/driver")


def uses_mlx5(host: Snapshot, pci: str) -> bool:
    """Return whether mlx5_core is bound to a function, or tried to bind, which leaves lines in the kernel log."""
    return find_driver(host, pci) == "mlx5_core" or f"mlx5_core {pci}" in (read_kernel_log(host) or "")


def read_vf_memory(host: Snapshot, pci: str) -> list[int]:
    """Return the addresses of the VFs' BARs, 0 for a BAR without memory; empty if the function has no SR-IOV."""
    if not host.read_number(f"{DEVICES}/{pci}/sriov_totalvfs"):
        return []
    rows = (read_pci_attribute(host, pci, "resource") or "").splitlines()[_VF_BARS]
    return [int(row.split()[0], 16) for row in rows]


def list_bridges(host: Snapshot, pci: str) -> list[str]:
    """Return the PCI addresses of the bridges above a function, nearest first."""
    bridges: list[str] = []
    bridge = host.get_target(f"{BUSES}/{_get_bus(pci)}/device")
    while bridge is not None and _FUNCTION.fullmatch(bridge) and bridge not in bridges:
        bridges.append(bridge)
        bridge = host.get_target(f"{BUSES}/{_get_bus(bridge)}/device")
    return bridges


def find_root_bus(host: Snapshot, pci: str) -> str:
    """Return the root bus above a function, such as `0000:10`."""
    return _get_bus([pci, *list_bridges(host, pci)][-1])


def to_bridge_path(pci: str, name: str) -> str:
    """Return the sysfs path of an attribute of the bridge directly above a function."""
    return f"{BUSES}/{_get_bus(pci)}/device/{name}"


def list_accelerators(host: Snapshot) -> list[str]:
    """Return the PCI addresses of the GPUs in the order of their numbers, as `discover` has them.

    AMD's are numbered by the kernel's compute topology, all others by their address.
    """
    kinds = {
        pci: (read_pci_attribute(host, pci, "vendor"), (read_pci_attribute(host, pci, "class") or "")[:6])
        for pci in host.folders.get(DEVICES, ())
    }
    indexes = read_kfd_indexes(host)
    accelerators = (pci for pci, kind in kinds.items() if kind in _ACCELERATORS)
    return sorted(accelerators, key=lambda pci: (indexes.get(pci, len(indexes)), pci))


def _get_bus(pci: str) -> str:
    return pci.rpartition(":")[0]


def is_virtual(host: Snapshot) -> bool:
    """Return whether the host is a virtual machine (CPUID bit of x86), whose PCI tree is emulated."""
    return _has_cpuinfo_line(host, r"^flags\s*:.*\bhypervisor\b")


def is_x86(host: Snapshot) -> bool:
    """Return whether the CPU is an x86."""
    return _has_cpuinfo_line(host, r"^vendor_id\s*:")


def _has_cpuinfo_line(host: Snapshot, pattern: str) -> bool:
    return re.search(pattern, host.read_text("/proc/cpuinfo") or "", re.MULTILINE) is not None


def read_kernel_log(host: Snapshot) -> str | None:
    """Return the kernel log as dmesg prints it; None if it could not be read."""
    return host.get_output(*_LOG)


def describe_log_error(host: Snapshot) -> str:
    """Describe why the kernel log could not be read."""
    outcome = host.get_outcome(*_LOG)
    return f"dmesg: {outcome.output.strip()[:120]}" if isinstance(outcome, ProgramResult) else "dmesg is not installed"


def find_log_line(log: str, pattern: str) -> str:
    """Return the last line of the log that matches, without its timestamp; empty if none matches."""
    matches = list(re.finditer(pattern, log))
    if not matches:
        return ""
    last = matches[-1]
    start, end = log.rfind("\n", 0, last.start()) + 1, log.find("\n", last.end())
    return _TIMESTAMP.sub("", log[start : end if end >= 0 else None], count=1).strip()[:200]


def describe_log_coverage(log: str) -> str:
    """Describe the period in which nothing was logged: the kernel's buffer keeps only the latest lines."""
    timestamp = _TIMESTAMP.match(log)
    if timestamp is None:
        return "nothing logged; the log was emptied"
    start = int(timestamp[1])
    return "nothing logged since boot" if start < _FIRST_LINE_SECONDS else f"nothing logged since {start} s after boot"
