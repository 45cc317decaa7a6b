"""The NVIDIA driver: GPUDirect, matching versions, and the fabric manager of NVSwitch systems.

A NIC reaches GPU memory through nvidia-peermem (/sys/module/nvidia_peermem, or nv_mem of older stacks) or through
DMA-BUF, which needs the open kernel modules and Linux 5.12.
"""

import re
from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.finding import Finding
from trackbed.doctor.hardware import DEVICES, NVIDIA, find_log_line, read_kernel_log, read_pci_attribute
from trackbed.doctor.view import NodeView
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

DRIVER_VERSION = "/proc/driver/nvidia/version"
MODULE_VERSION = "/sys/module/nvidia/version"
RELEASE = "/proc/sys/kernel/osrelease"
FABRIC_MANAGER_STATE = ("systemctl", "is-active", "nvidia-fabricmanager")
_FABRIC_MANAGER_COMM = "nv-fabricmanage"
"""Name of its process, 15 bytes of it (proc_pid_comm(5)); in GPU Operator's driver container, the host has no unit."""
_PEERMEM = (
    "/sys/module/nvidia_peermem/version",
    "/sys/kernel/mm/memory_peers/nv_mem/version",
    "/sys/kernel/mm/memory_peers/nv_mem_nc/version",
)
_LIBRARIES = ("/usr/lib/*/libnvidia-ml.so.1", "/usr/lib64/libnvidia-ml.so.1")
READS = Wanted(
    files=(DRIVER_VERSION, MODULE_VERSION, RELEASE, *_PEERMEM), links=_LIBRARIES, commands=(FABRIC_MANAGER_STATE,)
)

_DMABUF_SINCE = (5, 12)
_NVSWITCH_CLASS = "0x0680"
"""PCI class of the NVSwitches in HGX A100, H100 and H200."""
_UNKNOWN_SYMBOL = r"Unknown symbol ib_register_peer_memory_client"


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check the NVIDIA driver, if it is loaded."""
    driver = host.read_text(DRIVER_VERSION)
    if driver is None:
        return
    yield from check_library(view, host)
    yield from check_fabric_manager(view, host)
    if any(port.gpus for port in view.node.ports):
        yield from check_gpudirect(view, host, driver)


def check_gpudirect(view: NodeView, host: Snapshot, driver_version: str) -> Iterator[Finding]:
    """Check that NICs can reach GPU memory; `driver_version` is the content of /proc/driver/nvidia/version."""
    peermem = [path for path in _PEERMEM if path in host.files]
    has_dmabuf = "Open Kernel Module" in driver_version and _read_kernel_release(host) >= _DMABUF_SINCE
    refusal = find_log_line(read_kernel_log(host) or "", _UNKNOWN_SYMBOL) if not peermem else ""
    paths = [*peermem, *(["DMA-BUF: open kernel modules"] if has_dmabuf else [])]
    evidence = ", ".join(paths) or "no nvidia-peermem, and no DMA-BUF (it needs the open kernel modules and Linux 5.12)"
    yield build_finding("driver-gpudirect-path-missing", view.node, None, ok=bool(paths), evidence=evidence)
    if peermem or not has_dmabuf:
        yield build_finding(
            "driver-peermem-unknown-symbol", view.node, None, ok=not refusal, evidence=refusal or evidence
        )


def _read_kernel_release(host: Snapshot) -> tuple[int, ...]:
    """Return (major, minor) of the running kernel; (0, 0) if unknown."""
    match = re.match(r"(\d+)\.(\d+)", host.read_text(RELEASE) or "")
    return tuple(map(int, match.groups())) if match else (0, 0)


def check_library(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that libnvidia-ml has the same version as the loaded nvidia module.

    The version is in the library's file name: libnvidia-ml.so.1 links to libnvidia-ml.so.570.86.15.
    """
    loaded = host.read_text(MODULE_VERSION)
    targets = {host.get_target(path) or "" for path in host.glob(*_LIBRARIES)}
    versions = {name.partition(".so.")[2] for name in targets if re.search(r"\.so\.\d+\.\d", name)}
    if loaded is None or not versions:
        return
    evidence = f"module {loaded}, library {', '.join(sorted(versions))}"
    yield build_finding("driver-nvidia-library-mismatch", view.node, None, ok=loaded in versions, evidence=evidence)


def check_fabric_manager(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that nvidia-fabricmanager runs on a host with NVSwitches, as a unit or in a container."""
    switches = [
        pci
        for pci in host.folders.get(DEVICES, ())
        if read_pci_attribute(host, pci, "vendor") == NVIDIA
        and (read_pci_attribute(host, pci, "class") or "").startswith(_NVSWITCH_CLASS)
    ]
    if not switches:
        return
    outcome = host.get_outcome(*FABRIC_MANAGER_STATE)
    state = outcome.output.strip() if isinstance(outcome, ProgramResult) else None
    evidence = f"{len(switches)} NVSwitches; "
    if any((host.read_text(path) or "").strip() == _FABRIC_MANAGER_COMM for path in host.glob("/proc/[0-9]*/comm")):
        evidence += f"{_FABRIC_MANAGER_COMM} runs"
        yield build_finding("driver-fabric-manager-down", view.node, None, ok=True, evidence=evidence)
        return
    ok = None if state is None else state == "active"
    evidence += f"nvidia-fabricmanager is {state}" if state else "the state of nvidia-fabricmanager needs systemctl"
    yield build_finding("driver-fabric-manager-down", view.node, None, ok=ok, evidence=evidence)
