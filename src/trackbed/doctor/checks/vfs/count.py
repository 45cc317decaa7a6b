"""How many virtual functions a port has, and who makes them at boot."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.doctor.checks.vfs.functions import get_device_folder, iter_vfs, read_vf_count
from trackbed.host.runner import Ran
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.fabric.plan.plan import PortPlan
    from trackbed.host.snapshot.snapshot import Snapshot

MOST_ON_INFINIBAND = 16
"""What the release notes of NVIDIA's operator name: more overflow the one netlink message that tells of all VFs."""

_LOG = ("dmesg",)
_MAKERS = (
    "/etc/systemd/system/*.service",
    "/etc/udev/rules.d/*.rules",
    "/etc/netplan/*.yaml",
    "/etc/systemd/network/*.link",
    "/etc/systemd/network/*.network",
    "/etc/trackbed/boot.sh",
    "/etc/rc.local",
)
_MAKES = re.compile(r"sriov_numvfs|virtual-function-count|^\s*\[SR-IOV\]|^SR-IOVVirtualFunctions=", re.MULTILINE)
"""What makes VFs: a script or udev rule writes the file, netplan(5) and systemd.link(5), .network(5) have words."""
_OPERATOR = "/etc/sriov-operator"
"""Where the SR-IOV operator's daemon keeps its files on a host."""
_NO_ROOM = r"{pci}: can't enable \d+ VFs \(bus [0-9a-f]+ out of range of [^)]*\)"
"""Said by sriov_enable of drivers/pci/iov.c."""

READS = Wanted(files=_MAKERS, folders=(_OPERATOR,), commands=(_LOG,))


def check(view: NodeView) -> Iterator[Finding]:
    """Judge the number of VFs of each port that can have some."""
    host, planned = view.host, view.node.common.vfs
    if host is None or not planned:
        return
    maker = _maker(host)
    for port in view.iter_ports():
        have = read_vf_count(host, port.netdev)
        if have is not None:
            yield from _count(view, host, port, have)
            yield from _boot(view, port, have, maker)
            yield from _room(view, host, port, have)
            yield from _infiniband(view, port, have)


def _count(view: NodeView, host: Snapshot, port: PortPlan, have: int) -> Iterator[Finding]:
    planned, total = view.node.common.vfs, host.number(f"{get_device_folder(port.netdev)}/sriov_totalvfs")
    there = sum(1 for _ in iter_vfs(host, port.netdev))
    evidence = f"sriov_numvfs {have}, sriov_totalvfs {total}, {there} present, planned {planned}"
    yield judge("vfs-count-change-busy", view.node, port, ok=have in {0, planned}, evidence=evidence)
    yield judge("vfs-count-wrong", view.node, port, ok=have == planned == there, evidence=evidence)


def _boot(view: NodeView, port: PortPlan, have: int, maker: str | None) -> Iterator[Finding]:
    evidence = f"sriov_numvfs {have}, " + (f"made at boot by {maker}" if maker else "nothing makes them at boot")
    yield judge("vfs-lost-after-reboot", view.node, port, ok=bool(have or maker), evidence=evidence)


def _maker(host: Snapshot) -> str | None:
    """The file that has VFs made at boot; the first that is found."""
    if _OPERATOR in host.folders:
        return _OPERATOR
    paths = (path for pattern in _MAKERS for path in host.glob(pattern))
    return next((path for path in paths if _MAKES.search(host.text(path) or "")), None)


def _room(view: NodeView, host: Snapshot, port: PortPlan, have: int) -> Iterator[Finding]:
    """Only where VFs are missing: a line of an attempt that was made good since has no meaning."""
    pci, log = port.pci or host.pci(port.netdev), host.ran(*_LOG)
    if have == view.node.common.vfs or pci is None or not isinstance(log, Ran):
        return
    line = re.search(_NO_ROOM.format(pci=re.escape(pci)), log.output)
    ok = not line if log.status == 0 else None
    evidence = line[0] if line else ("no such line in dmesg" if ok else f"dmesg: {log.output.strip()[:200]}")
    yield judge("vfs-bus-numbers-exhausted", view.node, port, ok=ok, evidence=evidence)


def _infiniband(view: NodeView, port: PortPlan, have: int) -> Iterator[Finding]:
    if view.node.common.link_type == "infiniband":
        evidence = f"{have} VFs, at most {MOST_ON_INFINIBAND}"
        yield judge("vfs-too-many-on-infiniband", view.node, port, ok=have <= MOST_ON_INFINIBAND, evidence=evidence)
