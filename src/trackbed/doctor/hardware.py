"""Reads of a host's snapshot that several steps share: the PCI tree, and the kernel's log.

    root bus 0000:10 -- bridge 0000:10:00.0 -- bus 0000:11 -- NIC 0000:11:00.0

`/sys/class/pci_bus/BUS/device` links to the bridge above a bus (on a root bus to `pci0000:10`, which is no PCI
function). Following these links avoids parsing the device paths of sysfs.
"""

import re
from collections.abc import Iterator

from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.runner import Ran
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

DEVICES = "/sys/bus/pci/devices"
BUSES = "/sys/class/pci_bus"
_LOG = ("dmesg",)

READS = Wanted(
    files=("/proc/cpuinfo", f"{DEVICES}/*/vendor", f"{DEVICES}/*/class", f"{DEVICES}/{{pci}}/device"),
    links=("/sys/class/net/{netdev}/device", f"{DEVICES}/{{pci}}/driver", f"{BUSES}/*/device"),
    folders=(DEVICES,),
    commands=(_LOG,),
)
"""What these functions read of a host."""

NVIDIA_NIC, NVIDIA, AMD = "0x15b3", "0x10de", "0x1002"
"""PCI vendor ids: Mellanox (kept by NVIDIA's NICs), NVIDIA, AMD."""
_ACCELERATORS = {(NVIDIA, "0x0302"), (AMD, "0x1200"), (AMD, "0x0380")}
"""(vendor, class): 3D controller, processing accelerator, other display controller."""
_FUNCTION = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_TIMESTAMP = re.compile(r"\[\s*(\d+)\.\d+\]")
_EARLY_SECONDS = 5
"""The kernel's first lines are logged before this time."""


def iter_functions(view: NodeView, host: Snapshot) -> Iterator[tuple[PortPlan, str]]:
    """Yield each planned port with its PCI address, where it is known and present; ports inside pods are included."""
    for port in view.node.ports:
        pci = port.pci or host.find_pci(port.netdev)
        if pci is not None and f"{DEVICES}/{pci}/vendor" in host.files:
            yield port, pci


def read_attribute(host: Snapshot, pci: str, name: str) -> str | None:
    """Return the content of a PCI function's file in sysfs; None where it does not exist."""
    return host.read_text(f"{DEVICES}/{pci}/{name}")


def read_device_id(host: Snapshot, pci: str) -> tuple[str | None, str | None]:
    """Return the PCI vendor and device id of a function."""
    return read_attribute(host, pci, "vendor"), read_attribute(host, pci, "device")


def find_driver(host: Snapshot, pci: str) -> str | None:
    """Return the driver that is bound to a PCI function."""
    return host.get_target(f"{DEVICES}/{pci}/driver")


def uses_mlx5(host: Snapshot, pci: str) -> bool:
    """Return whether mlx5_core is bound to a function or tried to be: a failed probe leaves only lines in the log."""
    return find_driver(host, pci) == "mlx5_core" or f"mlx5_core {pci}" in (read_kernel_log(host) or "")


def list_bridges(host: Snapshot, pci: str) -> list[str]:
    """Return the bridges above a function, nearest first."""
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
    """Return the sysfs path of a file of the bridge directly above a function."""
    return f"{BUSES}/{_get_bus(pci)}/device/{name}"


def list_accelerators(host: Snapshot) -> list[str]:
    """Return the PCI addresses of GPUs in bus order, which is the order in which their drivers number them."""
    kinds = {
        pci: (read_attribute(host, pci, "vendor"), (read_attribute(host, pci, "class") or "")[:6])
        for pci in host.folders.get(DEVICES, ())
    }
    return sorted(pci for pci, kind in kinds.items() if kind in _ACCELERATORS)


def _get_bus(pci: str) -> str:
    return pci.rpartition(":")[0]


def is_virtual(host: Snapshot) -> bool:
    """Return whether the host is a virtual machine (x86: a CPUID bit), whose PCI tree is the hypervisor's invention."""
    return re.search(r"^flags\s*:.*\bhypervisor\b", host.read_text("/proc/cpuinfo") or "", re.MULTILINE) is not None


def is_x86(host: Snapshot) -> bool:
    """Return whether the CPU is an x86."""
    return re.search(r"^vendor_id\s*:", host.read_text("/proc/cpuinfo") or "", re.MULTILINE) is not None


def read_kernel_log(host: Snapshot) -> str | None:
    """Return the kernel's log as dmesg prints it; None where it could not be read."""
    return host.get_output(*_LOG)


def describe_log_error(host: Snapshot) -> str:
    """Return why the kernel's log could not be read."""
    ran = host.get_outcome(*_LOG)
    return f"dmesg: {ran.output.strip()[:120]}" if isinstance(ran, Ran) else "dmesg is not installed"


def find_log_line(log: str, pattern: str) -> str:
    """Return the last line of the log that matches, without its timestamp; empty where none matches."""
    matches = list(re.finditer(pattern, log))
    if not matches:
        return ""
    last = matches[-1]
    start, end = log.rfind("\n", 0, last.start()) + 1, log.find("\n", last.end())
    return _TIMESTAMP.sub("", log[start : end if end >= 0 else None], count=1).strip()[:200]


def describe_log_reach(log: str) -> str:
    """Return how far back the log reaches: the kernel keeps only its last lines."""
    timestamp = _TIMESTAMP.match(log)
    if timestamp is None:
        return "nothing logged; the log was emptied"
    start = int(timestamp[1])
    return "nothing logged since boot" if start < _EARLY_SECONDS else f"nothing logged since {start} s after boot"
