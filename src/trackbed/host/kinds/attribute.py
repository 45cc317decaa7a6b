"""Kind attribute: a file of sysfs or configfs that belongs to a port holds a value."""

from __future__ import annotations

from shlex import quote
from typing import NamedTuple

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.change import AttributeWrite, Change, Skipped, build_change
from trackbed.host.kinds.kind import Kind, UndoData, has_rename, keep_pods
from trackbed.host.kinds.sysfs import find_rdma_device, parse_value, read_undo_files, restore_files
from trackbed.host.kinds.view import View
from trackbed.host.kinds.writers import find_daemons
from trackbed.host.machine import Absent, Unreadable
from trackbed.host.setting import Setting


class Want(NamedTuple):
    """A file of sysfs or configfs that belongs to port `netdev` holds `value`.

    In `path`, {netdev} and {rdma} are replaced by the present names of the port and its RDMA device.
    """

    netdev: str
    path: str
    value: str

    def __str__(self) -> str:
        return self.path.format(netdev=self.netdev, rdma=self.netdev)


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of an attribute that has another value."""
    machine, path = view.machine, _find_file(want, view)
    subject = path or str(want)
    have = Absent() if machine.shared_reason or not path else machine.read(path)
    if isinstance(have, Absent):
        return Skipped(setting, subject, machine.shared_reason or "this port's driver has no such file")
    if isinstance(have, Unreadable):
        return Skipped(setting, subject, f"cannot be read: {have.reason}")
    now = parse_value(have)
    return (
        None
        if now == want.value
        else build_change(setting, subject, now, want.value, (AttributeWrite(path, want.value),))
    )


def read_undo_data(view: View) -> UndoData:
    """Return the values by path."""
    return read_undo_files(view, [_find_file(want, view) for want in view.list_wants(Want)])


def _find_file(want: Want, view: View) -> str:
    """Return the path with the present names; empty if the port or its RDMA device is absent."""
    link, rdma = view.ports.get(want.netdev), find_rdma_device(view, want.netdev)
    is_absent = link is None or ("{rdma}" in want.path and not rdma)
    return "" if is_absent or link is None else want.path.format(netdev=link.name, rdma=rdma)


def render_boot_line(want: Want, _: NodePlan) -> str:
    """Render the write of the value. A path with an RDMA device matches any name, as the device may be renamed."""
    if "{rdma}" not in want.path:
        return f"put {quote(want.path.format(netdev=want.netdev))} {quote(want.value)}\n"
    places = want.path.format(netdev=quote(want.netdev), rdma="*")
    return f'for file in {places}; do put "$file" {quote(want.value)}; done\n'


KIND = Kind(
    "attribute",
    (Want,),
    compare,
    read_undo_data=read_undo_data,
    restore=restore_files,
    render_boot_line=render_boot_line,
    tolerates_refusal=True,
    must_wait=has_rename,
    disrupts_pods=keep_pods,
    find_writers=lambda _, view: find_daemons(view.machine, ("mlnx_tune",)),
)
