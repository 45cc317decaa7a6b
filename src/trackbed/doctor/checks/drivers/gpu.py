"""The NVIDIA driver, as far as rails need it: GPUDirect's way, one version, the fabric manager of NVSwitch systems.

A NIC reaches GPU memory by nvidia-peermem (/sys/module/nvidia_peermem, or nv_mem of older stacks), or by DMA-BUF, which
takes the open kernel modules and Linux 5.12.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.doctor.hardware import DEVICES, NVIDIA, find_log_line, read_attribute, read_kernel_log
from trackbed.host.runner import Ran
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.host.snapshot.snapshot import Snapshot

DRIVER = "/proc/driver/nvidia/version"
MODULE = "/sys/module/nvidia/version"
RELEASE = "/proc/sys/kernel/osrelease"
MANAGER = ("systemctl", "is-active", "nvidia-fabricmanager")
_PEERMEM = (
    "/sys/module/nvidia_peermem/version",
    "/sys/kernel/mm/memory_peers/nv_mem/version",
    "/sys/kernel/mm/memory_peers/nv_mem_nc/version",
)
_LIBRARIES = ("/usr/lib/*/libnvidia-ml.so.1", "/usr/lib64/libnvidia-ml.so.1")
READS = Wanted(files=(DRIVER, MODULE, RELEASE, *_PEERMEM), links=_LIBRARIES, commands=(MANAGER,))

_DMABUF_SINCE = (5, 12)
_BRIDGE_OTHER = "0x0680"
"""PCI class of an NVSwitch of HGX A100, H100 and H200."""
_SYMBOL = r"Unknown symbol ib_register_peer_memory_client"


def check(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Judge the driver where it is loaded; a host without it has nothing to judge."""
    said = host.text(DRIVER)
    if said is None:
        return
    yield from _library(view, host)
    yield from _manager(view, host)
    if any(port.gpus for port in view.node.ports):
        yield from _gpudirect(view, host, said)


def _gpudirect(view: NodeView, host: Snapshot, said: str) -> Iterator[Finding]:
    peermem = [path for path in _PEERMEM if path in host.files]
    dmabuf = "Open Kernel Module" in said and _release(host) >= _DMABUF_SINCE
    refused = find_log_line(read_kernel_log(host) or "", _SYMBOL) if not peermem else ""
    ways = [*peermem, *(["DMA-BUF: open kernel modules"] if dmabuf else [])]
    evidence = ", ".join(ways) or "no nvidia-peermem, and no DMA-BUF (it takes the open kernel modules and Linux 5.12)"
    if peermem or not dmabuf:
        yield judge("driver-peermem-unknown-symbol", view.node, None, ok=not refused, evidence=refused or evidence)
    yield judge("driver-gpudirect-path-missing", view.node, None, ok=bool(ways), evidence=evidence)


def _release(host: Snapshot) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", host.text(RELEASE) or "")
    return tuple(map(int, found.groups())) if found else (0, 0)


def _library(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """The library's name says its version: libnvidia-ml.so.1 leads to libnvidia-ml.so.570.86.15."""
    loaded = host.text(MODULE)
    targets = {host.target(path) or "" for pattern in _LIBRARIES for path in host.glob(pattern)}
    versions = {name.partition(".so.")[2] for name in targets if re.search(r"\.so\.\d+\.\d", name)}
    if loaded is None or not versions:
        return
    evidence = f"module {loaded}, library {', '.join(sorted(versions))}"
    yield judge("driver-nvidia-library-mismatch", view.node, None, ok=loaded in versions, evidence=evidence)


def _manager(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    kinds = [
        pci
        for pci in host.folders.get(DEVICES, ())
        if read_attribute(host, pci, "vendor") == NVIDIA
        and (read_attribute(host, pci, "class") or "").startswith(_BRIDGE_OTHER)
    ]
    if not kinds:
        return
    ran = host.ran(*MANAGER)
    state = ran.output.strip() if isinstance(ran, Ran) else None
    ok = None if state is None else state == "active"
    evidence = f"{len(kinds)} NVSwitches; nvidia-fabricmanager is {state or 'not to be asked without systemctl'}"
    yield judge("driver-fabric-manager-down", view.node, None, ok=ok, evidence=evidence)
