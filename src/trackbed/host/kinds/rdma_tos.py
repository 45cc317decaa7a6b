"""Kind RDMA ToS: the traffic class that rdma_cm gives to new connections of a device, in configfs.

A folder made under rdma_cm shows a device's settings, and hides them when it is removed; the settings stay with the
device (drivers/infiniband/core/cma_configfs.c). What a device has cannot be known without the folder: `compare` makes
none, it only looks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.change import NOTHING, AttributeWrite, Change, Skipped, fulfil
from trackbed.host.kinds.kind import Kept, Kind, has_rename
from trackbed.host.kinds.sysfs import find_rdma_device
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine, Unreadable
from trackbed.host.setting import Setting

BASE = "/sys/kernel/config/rdma_cm"
_FILE = "ports/1/default_roce_tos"


class Want(NamedTuple):
    """Connections by rdma_cm over the RDMA device of port `netdev` begin with this traffic class (IPv4: TOS)."""

    netdev: str
    tos: int

    def __str__(self) -> str:
        return f"rdma_cm's traffic class of {self.netdev}"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of a traffic class that differs or is not known."""
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
    now = have if isinstance(have, str) else NOTHING
    if now == str(want.tos):
        return None
    write = AttributeWrite(path, str(want.tos), folder=f"{BASE}/{device}")
    return fulfil(setting, subject, now, str(want.tos), (write,))


def keep(view: View) -> Kept:
    """Return each device's traffic class and whether its folder existed."""
    names = [name for want in view.list_wants(Want) if (name := find_rdma_device(view, want.netdev))]
    kept = {}
    for name in names if view.machine.locate(BASE).is_dir() else ():
        with suppress(OSError):
            kept[name] = _read_class(view.machine, name)
    return kept


def _read_class(machine: Machine, device: str) -> tuple[str, bool]:
    """Read a device's traffic class and whether its folder exists; a folder that had to be created is removed."""
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


def restore(machine: Machine, kept: Kept) -> Iterator[str]:
    """Restore the traffic classes under the restored device names, and remove folders that apply created."""
    for name, (value, had_folder) in kept.items():
        folder = machine.locate(f"{BASE}/{name}")
        try:
            folder.mkdir(exist_ok=True)
            if (folder / _FILE).read_text(encoding="ascii").strip() != value:
                (folder / _FILE).write_text(value, encoding="ascii")
            if not had_folder:
                folder.rmdir()
        except OSError as error:
            yield f"rdma_cm's traffic class of {name}: {error.strerror}"
    yield from _remove_orphans(machine)


def _remove_orphans(machine: Machine) -> Iterator[str]:
    """Remove folders of names that no device has: the kernel would reject their creation."""
    for folder in machine.locate(BASE).glob("*"):
        if folder.is_dir() and not machine.locate(f"/sys/class/infiniband/{folder.name}").exists():
            try:
                folder.rmdir()
            except OSError as error:
                yield f"{BASE}/{folder.name}: {error.strerror}"


def render_boot_line(want: Want, node: NodePlan) -> str:
    """Set the traffic class of the device by its rail's name."""
    number = next(port.rail for port in node.ports if port.netdev == want.netdev)
    name = next(rail.rdma for rail in node.common.rails if rail.rail == number)
    return f"tos {name} {want.tos}\n"


KIND = Kind(
    "rdma_tos",
    (Want,),
    compare,
    keep=keep,
    restore=restore,
    render_boot_line=render_boot_line,
    must_wait=has_rename,
)
