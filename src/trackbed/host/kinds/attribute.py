"""Kind attribute: a file of sysfs or configfs that belongs to a port holds a value."""

from __future__ import annotations

from typing import NamedTuple

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.change import AttributeWrite, Change, Skipped, fulfil
from trackbed.host.kinds.kind import Kept, Kind, has_rename
from trackbed.host.kinds.sysfs import find_rdma_device, keep_files, parse_value, restore_files
from trackbed.host.kinds.view import View
from trackbed.host.machine import Absent, Unreadable
from trackbed.host.setting import Setting


class Want(NamedTuple):
    """A file of sysfs or configfs that belongs to port `netdev` holds `value`.

    `path` may have {netdev} and {rdma} in place of the port's present names.
    """

    netdev: str
    path: str
    value: str

    def __str__(self) -> str:
        return self.path.format(netdev=self.netdev, rdma=self.netdev)


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Compare an attribute with its planned value; return the change, or None where they match."""
    machine, path = view.machine, _find_file(want, view)
    subject = path or str(want)
    have = Absent() if machine.shared_reason or not path else machine.read(path)
    if isinstance(have, Absent):
        return Skipped(setting, subject, machine.shared_reason or "this port's driver has no such file")
    if isinstance(have, Unreadable):
        return Skipped(setting, subject, f"cannot be read: {have.reason}")
    now = parse_value(have)
    return None if now == want.value else fulfil(setting, subject, now, want.value, (AttributeWrite(path, want.value),))


def keep(view: View) -> Kept:
    """Return the values by path."""
    return keep_files(view, [_find_file(want, view) for want in view.list_wants(Want)])


def _find_file(want: Want, view: View) -> str:
    """Return the path under the port's present names; empty where the port, or its RDMA device, is absent."""
    link, rdma = view.ports.get(want.netdev), find_rdma_device(view, want.netdev)
    is_absent = link is None or ("{rdma}" in want.path and not rdma)
    return "" if is_absent or link is None else want.path.format(netdev=link.name, rdma=rdma)


def render_boot_line(want: Want, _: NodePlan) -> str:
    """Write the value; of an RDMA device whatever its name is by then."""
    if "{rdma}" not in want.path:
        return f"put {want.path.format(netdev=want.netdev)} {want.value}\n"
    places = want.path.format(netdev=want.netdev, rdma="*")
    return f'for file in {places}; do put "$file" {want.value}; done\n'


KIND = Kind(
    "attribute",
    (Want,),
    compare,
    keep=keep,
    restore=restore_files,
    render_boot_line=render_boot_line,
    must_wait=has_rename,
)
