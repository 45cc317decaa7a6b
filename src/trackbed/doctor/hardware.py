"""What checks of several steps ask of a host's snapshot: where its PCI functions hang, and what its kernel logged.

    root bus 0000:10 -- bridge 0000:10:00.0 -- bus 0000:11 -- NIC 0000:11:00.0

`/sys/class/pci_bus/BUS/device` leads to the bridge above a bus (on a root bus to `pci0000:10`, which is no function):
that is the way up, and no path of sysfs need be taken apart.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trackbed.host.runner import Ran
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.view import NodeView
    from trackbed.fabric.plan.plan import PortPlan
    from trackbed.host.snapshot.snapshot import Snapshot

DEVICES = "/sys/bus/pci/devices"
BUSES = "/sys/class/pci_bus"
_LOG = ("dmesg",)

READS = Wanted(
    files=("/proc/cpuinfo", f"{DEVICES}/*/vendor", f"{DEVICES}/*/class", f"{DEVICES}/{{pci}}/device"),
    links=("/sys/class/net/{netdev}/device", f"{DEVICES}/{{pci}}/driver", f"{BUSES}/*/device"),
    folders=(DEVICES,),
    commands=(_LOG,),
)
"""What these functions need to see."""

NVIDIA_NIC, NVIDIA, AMD = "0x15b3", "0x10de", "0x1002"
"""PCI vendors: Mellanox's own id, which NVIDIA's NICs keep; NVIDIA; AMD."""
_ACCELERATORS = {(NVIDIA, "0x0302"), (AMD, "0x1200"), (AMD, "0x0380")}
"""(vendor, class): 3D controller, processing accelerator, other display controller."""
_FUNCTION = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_STAMP = re.compile(r"\[\s*(\d+)\.\d+\]")
_SOON_SECONDS = 5
"""The kernel's first lines come earlier than this."""


def iter_functions(view: NodeView, host: Snapshot) -> Iterator[tuple[PortPlan, str]]:
    """Each planned port with the PCI address of its function, where that is known and there; also ports inside pods."""
    for port in view.node.ports:
        pci = port.pci or host.pci(port.netdev)
        if pci is not None and f"{DEVICES}/{pci}/vendor" in host.files:
            yield port, pci


def read_attribute(host: Snapshot, pci: str, name: str) -> str | None:
    """A function's file in sysfs; None where there is none."""
    return host.text(f"{DEVICES}/{pci}/{name}")


def find_driver(host: Snapshot, pci: str) -> str | None:
    """The driver that has the function."""
    return host.target(f"{DEVICES}/{pci}/driver")


def uses_mlx5(host: Snapshot, pci: str) -> bool:
    """Whether mlx5_core has the function, or tried to: after a failed probe there is no driver, but there is a log."""
    return find_driver(host, pci) == "mlx5_core" or f"mlx5_core {pci}" in (read_kernel_log(host) or "")


def list_bridges(host: Snapshot, pci: str) -> list[str]:
    """The bridges above a function, the nearest first."""
    found: list[str] = []
    above = host.target(f"{BUSES}/{_bus(pci)}/device")
    while above is not None and _FUNCTION.fullmatch(above) and above not in found:
        found.append(above)
        above = host.target(f"{BUSES}/{_bus(above)}/device")
    return found


def find_root_bus(host: Snapshot, pci: str) -> str:
    """The root bus that a function hangs under, as 0000:10."""
    return _bus([pci, *list_bridges(host, pci)][-1])


def to_bridge_path(pci: str, name: str) -> str:
    """The path by which a file of the bridge right above a function is read."""
    return f"{BUSES}/{_bus(pci)}/device/{name}"


def list_accelerators(host: Snapshot) -> list[str]:
    """PCI addresses of GPUs in the order of the bus, which is how their drivers number them."""
    kinds = {
        pci: (read_attribute(host, pci, "vendor"), (read_attribute(host, pci, "class") or "")[:6]) for pci in _all(host)
    }
    return sorted(pci for pci, kind in kinds.items() if kind in _ACCELERATORS)


def _all(host: Snapshot) -> tuple[str, ...]:
    return host.folders.get(DEVICES, ())


def _bus(pci: str) -> str:
    return pci.rpartition(":")[0]


def is_virtual(host: Snapshot) -> bool:
    """Whether the host is a virtual machine (x86: a CPUID bit): its PCI tree is then somebody's drawing."""
    return re.search(r"^flags\s*:.*\bhypervisor\b", host.text("/proc/cpuinfo") or "", re.MULTILINE) is not None


def is_x86(host: Snapshot) -> bool:
    """Whether the CPU is an x86."""
    return re.search(r"^vendor_id\s*:", host.text("/proc/cpuinfo") or "", re.MULTILINE) is not None


def read_kernel_log(host: Snapshot) -> str | None:
    """What the kernel logged, as dmesg shows it; None where nobody may read it."""
    return host.said(*_LOG)


def describe_log_error(host: Snapshot) -> str:
    """Why the kernel's log could not be read."""
    ran = host.ran(*_LOG)
    return f"dmesg: {ran.output.strip()[:120]}" if isinstance(ran, Ran) else "there is no dmesg here"


def find_log_line(log: str, pattern: str) -> str:
    """The last line of the log that matches, without its time; empty where none does."""
    hits = list(re.finditer(pattern, log))
    if not hits:
        return ""
    last = hits[-1]
    start, end = log.rfind("\n", 0, last.start()) + 1, log.find("\n", last.end())
    return _STAMP.sub("", log[start : end if end >= 0 else None], count=1).strip()[:200]


def describe_log_reach(log: str) -> str:
    """How far back the log goes: the kernel keeps the last lines only."""
    first = _STAMP.match(log)
    if first is None:
        return "nothing logged; the log was emptied"
    start = int(first[1])
    return "nothing logged since boot" if start < _SOON_SECONDS else f"nothing logged since {start} s after boot"
