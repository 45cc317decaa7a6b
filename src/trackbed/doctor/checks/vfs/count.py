"""The number of virtual functions of a port, and what creates them at boot."""

import re
from collections.abc import Iterator

from trackbed.doctor.catalogue import judge
from trackbed.doctor.checks.vfs.functions import get_device_folder, iter_vfs, read_vf_count
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.runner import Ran
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

MOST_ON_INFINIBAND = 16
"""Limit from the release notes of NVIDIA's operator: more VFs overflow the single netlink message that lists them."""

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
_CREATES_VFS = re.compile(r"sriov_numvfs|virtual-function-count|^\s*\[SR-IOV\]|^SR-IOVVirtualFunctions=", re.MULTILINE)
"""Settings that create VFs: the sysfs file in scripts and udev rules, and keys of netplan(5) and systemd.link(5)."""
_OPERATOR = "/etc/sriov-operator"
"""Folder of the SR-IOV operator's daemon on a host."""
_NO_BUS = r"{pci}: can't enable \d+ VFs \(bus [0-9a-f]+ out of range of [^)]*\)"
"""Message of sriov_enable in drivers/pci/iov.c."""

READS = Wanted(files=_CREATORS, folders=(_OPERATOR,), commands=(_LOG,))


def check(view: NodeView) -> Iterator[Finding]:
    """Check the number of VFs of each port that supports VFs."""
    host, planned = view.host, view.node.common.vfs
    if host is None or not planned:
        return
    creator = _find_creator(host)
    for port in view.iter_ports():
        count = read_vf_count(host, port.netdev)
        if count is not None:
            yield from check_count(view, host, port, count)
            yield check_boot(view, port, count, creator)
            yield from check_bus_numbers(view, host, port, count)
            yield from check_infiniband_limit(view, port, count)


def check_count(view: NodeView, host: Snapshot, port: PortPlan, count: int) -> Iterator[Finding]:
    """Check that the port has the planned VFs, or none yet: another number needs their removal first."""
    planned, total = view.node.common.vfs, host.read_number(f"{get_device_folder(port.netdev)}/sriov_totalvfs")
    present = sum(1 for _ in iter_vfs(host, port.netdev))
    evidence = f"sriov_numvfs {count}, sriov_totalvfs {total}, {present} present, planned {planned}"
    yield judge("vfs-count-change-busy", view.node, port, ok=count in {0, planned}, evidence=evidence)
    yield judge("vfs-count-wrong", view.node, port, ok=count == planned == present, evidence=evidence)


def check_boot(view: NodeView, port: PortPlan, count: int, creator: str | None) -> Finding:
    """Check that the port has VFs or that something creates them at boot."""
    evidence = f"sriov_numvfs {count}, " + (
        f"created at boot by {creator}" if creator else "nothing creates them at boot"
    )
    return judge("vfs-lost-after-reboot", view.node, port, ok=bool(count or creator), evidence=evidence)


def _find_creator(host: Snapshot) -> str | None:
    """Return the first file that has VFs created at boot."""
    if _OPERATOR in host.folders:
        return _OPERATOR
    paths = (path for pattern in _CREATORS for path in host.glob(pattern))
    return next((path for path in paths if _CREATES_VFS.search(host.read_text(path) or "")), None)


def check_bus_numbers(view: NodeView, host: Snapshot, port: PortPlan, count: int) -> Iterator[Finding]:
    """Check the log for exhausted bus numbers, where VFs are missing; else its lines are about an earlier attempt."""
    pci, log = port.pci or host.find_pci(port.netdev), host.get_outcome(*_LOG)
    if count == view.node.common.vfs or pci is None or not isinstance(log, Ran):
        return
    match = re.search(_NO_BUS.format(pci=re.escape(pci)), log.output)
    ok = not match if log.status == 0 else None
    evidence = match[0] if match else ("no such line in dmesg" if ok else f"dmesg: {log.output.strip()[:200]}")
    yield judge("vfs-bus-numbers-exhausted", view.node, port, ok=ok, evidence=evidence)


def check_infiniband_limit(view: NodeView, port: PortPlan, count: int) -> Iterator[Finding]:
    """Check that an InfiniBand port has no more VFs than its tools support."""
    if view.node.common.link_type == "infiniband":
        evidence = f"{count} VFs, at most {MOST_ON_INFINIBAND}"
        yield judge("vfs-too-many-on-infiniband", view.node, port, ok=count <= MOST_ON_INFINIBAND, evidence=evidence)
