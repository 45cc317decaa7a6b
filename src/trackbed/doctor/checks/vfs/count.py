"""The number of a port's virtual functions, and the file that causes their creation at boot."""

import re
from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding, format_value
from trackbed.doctor.checks.vfs.functions import get_device_folder, iter_vfs, read_vf_count
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

MAX_ON_INFINIBAND = 16
"""Maximum of VFs per port, from the release notes of NVIDIA's operator: more overflow the netlink message with them."""

_LOG = ("dmesg",)
_CREATORS = (
    "/etc/systemd/system/*.service",
    "/etc/udev/rules.d/*.rules",
    "/etc/netplan/*.yaml",
    "/etc/systemd/network/*.link",
    "/etc/systemd/network/*.network",
    "/etc/trackbed/boot.sh",
    "/etc/rc.local",
)
_CREATES_VFS = re.compile(
    r"sriov_numvfs|virtual-function-count|^[ \t]*\[SR-IOV\]|^SR-IOVVirtualFunctions=", re.MULTILINE
)
"""Settings that create VFs: the sysfs file in scripts and udev rules, and keys of netplan(5) and systemd.link(5)."""
_OPERATOR = "/etc/sriov-operator"
"""Folder of the SR-IOV operator's daemon on a host; the daemon creates VFs at boot."""
_NO_BUS = r"{pci}: can't enable \d+ VFs \(bus [0-9a-f]+ out of range of [^)\n]{{0,200}}\)"
"""Message of sriov_enable in drivers/pci/iov.c."""

READS = Wanted(files=_CREATORS, folders=(_OPERATOR,), commands=(_LOG,))


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check the number of VFs of each port that supports VFs."""
    if not view.node.common.vfs:
        return
    creator = _find_vf_creator(host)
    for port in view.iter_ports():
        count = read_vf_count(host, port.netdev)
        if count is not None:
            yield from check_vf_count(view, host, port, count)
            yield check_boot_creation(view, port, count, creator)
            yield from check_bus_numbers(view, host, port, count)
            yield from check_infiniband_limit(view, port, count)


def check_vf_count(view: NodeView, host: Snapshot, port: PortPlan, vf_count: int) -> Iterator[Finding]:
    """Check that the port has the planned number of VFs, or 0: the kernel changes the number only from or to 0."""
    planned, total = view.node.common.vfs, host.read_number(f"{get_device_folder(port.netdev)}/sriov_totalvfs")
    present = sum(1 for _ in iter_vfs(host, port.netdev))
    evidence = f"sriov_numvfs {vf_count}, sriov_totalvfs {format_value(total)}, {present} present, planned {planned}"
    yield build_finding("vfs-count-wrong", view.node, port, ok=vf_count == planned == present, evidence=evidence)
    yield build_finding("vfs-count-change-busy", view.node, port, ok=vf_count in {0, planned}, evidence=evidence)


def check_boot_creation(view: NodeView, port: PortPlan, vf_count: int, creator: str | None) -> Finding:
    """Check that the port has VFs, or that they are created at boot."""
    evidence = f"sriov_numvfs {vf_count}, " + (
        f"created at boot by {creator}" if creator else "nothing creates them at boot"
    )
    return build_finding("vfs-lost-after-reboot", view.node, port, ok=bool(vf_count or creator), evidence=evidence)


def _find_vf_creator(host: Snapshot) -> str | None:
    """Return the first file (or the operator's folder) that causes VFs to be created at boot; None if there is none."""
    if _OPERATOR in host.folders:
        return _OPERATOR
    return next((path for path in host.glob(*_CREATORS) if _CREATES_VFS.search(host.read_text(path) or "")), None)


def check_bus_numbers(view: NodeView, host: Snapshot, port: PortPlan, vf_count: int) -> Iterator[Finding]:
    """Check the log for exhausted bus numbers if VFs are missing; otherwise its lines belong to an earlier attempt."""
    pci, log = port.pci or host.find_pci(port.netdev), host.get_outcome(*_LOG)
    if vf_count == view.node.common.vfs or pci is None or not isinstance(log, ProgramResult):
        return
    match = re.search(_NO_BUS.format(pci=re.escape(pci)), log.output)
    ok = not match if log.status == 0 else None
    evidence = match[0] if match else ("no such line in dmesg" if ok else f"dmesg: {log.output.strip()[:200]}")
    yield build_finding("vfs-bus-numbers-exhausted", view.node, port, ok=ok, evidence=evidence)


def check_infiniband_limit(view: NodeView, port: PortPlan, vf_count: int) -> Iterator[Finding]:
    """Check that an InfiniBand port has no more VFs than its tools support."""
    if view.node.common.link_type == "infiniband":
        evidence = f"{vf_count} VFs, at most {MAX_ON_INFINIBAND}"
        yield build_finding(
            "vfs-too-many-on-infiniband", view.node, port, ok=vf_count <= MAX_ON_INFINIBAND, evidence=evidence
        )
