"""Kind RDMA ToS: the traffic class that rdma_cm gives to new connections of a device, in configfs.

A new folder in rdma_cm shows the settings of a device. When the folder is removed, the device keeps the settings
(drivers/infiniband/core/cma_configfs.c). They cannot be read without the folder, and `compare` does not create it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from shlex import quote
from typing import NamedTuple

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.change import ABSENT_VALUE, AttributeWrite, Change, Skipped, build_change
from trackbed.host.kinds.kind import Kind, UndoData, has_rename, keep_pods
from trackbed.host.kinds.sysfs import find_rdma_device
from trackbed.host.kinds.view import View
from trackbed.host.kinds.writers import find_daemons
from trackbed.host.machine import Machine, Unreadable
from trackbed.host.setting import Setting

BASE = "/sys/kernel/config/rdma_cm"
_FILE = "ports/1/default_roce_tos"


class Want(NamedTuple):
    """New connections by rdma_cm over the RDMA device of port `netdev` have this traffic class (IPv4: TOS)."""

    netdev: str
    tos: int

    def __str__(self) -> str:
        return f"rdma_cm's traffic class of {self.netdev}"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of a traffic class that differs or is unknown."""
    machine, subject, device = view.machine, str(want), find_rdma_device(view, want.netdev)
    if not device:
        return Skipped(setting, subject, machine.shared_reason or "this port has no RDMA device")
    if not machine.locate(BASE).is_dir():
        return Skipped(
            setting, subject, "rdma_cm is not in configfs: the module is not loaded, or configfs not mounted"
        )
    path = f"{BASE}/{device}/{_FILE}"
    have = machine.read(path)
    if isinstance(have, Unreadable):
        return Skipped(setting, subject, f"cannot be read: {have.reason}")
    now = have if isinstance(have, str) else ABSENT_VALUE
    if now == str(want.tos):
        return None
    write = AttributeWrite(path, str(want.tos), folder=f"{BASE}/{device}")
    return build_change(setting, subject, now, str(want.tos), (write,))


def read_undo_data(view: View) -> UndoData:
    """Return the traffic class of each planned port's RDMA device, and whether its folder existed."""
    names = [name for want in view.list_wants(Want) if (name := find_rdma_device(view, want.netdev))]
    undo_data = {}
    for name in names if view.machine.locate(BASE).is_dir() else ():
        with suppress(OSError):
            undo_data[name] = _read_traffic_class(view.machine, name)
    return undo_data


def _read_traffic_class(machine: Machine, device: str) -> tuple[str, bool]:
    """Read a device's traffic class and whether its folder exists. A missing folder is created temporarily."""
    folder = machine.locate(f"{BASE}/{device}")
    compared = machine.read(f"{BASE}/{device}/{_FILE}")
    if isinstance(compared, str):
        return compared, True
    is_new = not folder.is_dir()
    if is_new:
        folder.mkdir()
    try:
        return (folder / _FILE).read_text(encoding="ascii").strip(), not is_new
    finally:
        if is_new:
            folder.rmdir()


def restore(machine: Machine, undo_data: UndoData) -> Iterator[str]:
    """Restore the traffic classes under the restored device names, and remove folders that apply created."""
    for name, (value, had_folder) in undo_data.items():
        folder = machine.locate(f"{BASE}/{name}")
        try:
            folder.mkdir(exist_ok=True)
            if (folder / _FILE).read_text(encoding="ascii").strip() != value:
                (folder / _FILE).write_text(value, encoding="ascii")
            if not had_folder:
                folder.rmdir()
        except OSError as error:
            yield f"rdma_cm's traffic class of {name}: {error.strerror}"
    yield from _remove_orphaned_directories(machine)


def _remove_orphaned_directories(machine: Machine) -> Iterator[str]:
    """Remove the rdma_cm directories in configfs of devices that were renamed or removed; yield failures as text."""
    for folder in machine.locate(BASE).glob("*"):
        if folder.is_dir() and not machine.locate(f"/sys/class/infiniband/{folder.name}").exists():
            try:
                folder.rmdir()
            except OSError as error:
                yield f"{BASE}/{folder.name}: {error.strerror}"


def render_boot_line(want: Want, _: NodePlan) -> str:
    """Render the command for the port's RDMA device, which the script finds by the port."""
    return f"tos {quote(want.netdev)} {want.tos}\n"


KIND = Kind(
    "rdma_tos",
    (Want,),
    compare,
    read_undo_data=read_undo_data,
    restore=restore,
    undo_data_type=dict[str, tuple[str, bool]],
    render_boot_line=render_boot_line,
    tolerates_refusal=True,
    must_wait=has_rename,
    disrupts_pods=keep_pods,
    find_writers=lambda _, view: find_daemons(view.machine, ("mlnx_tune",)),
)
