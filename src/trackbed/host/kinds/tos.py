"""Kind RDMA ToS: the traffic class that rdma_cm gives to new connections of a device, in configfs.

A folder made under rdma_cm shows a device's settings, and hides them when it is removed; the settings stay with the
device (drivers/infiniband/core/cma_configfs.c). What a device has cannot be known without the folder: `compare` makes
none, it only looks.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from trackbed.host.change import NOTHING, AttributeWrite, Change, Skipped, wanted
from trackbed.host.kinds.attributes import rdma_device
from trackbed.host.machine import Unreadable
from trackbed.host.setting import RdmaTos

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from trackbed.host.kinds.view import View
    from trackbed.host.machine import Machine
    from trackbed.host.setting import Setting

BASE = "/sys/kernel/config/rdma_cm"
_FILE = "ports/1/default_roce_tos"


def compare(setting: Setting, want: RdmaTos, view: View) -> Change | Skipped | None:
    """The traffic class that is another, or not known."""
    machine, what = view.state.machine, f"rdma_cm's traffic class of {want.netdev}"
    device = "" if machine.shared else rdma_device(view, want.netdev)
    if not device:
        return Skipped(setting, what, machine.shared or "this port has no RDMA device")
    if not machine.path(BASE).is_dir():
        return Skipped(setting, what, "rdma_cm is not in configfs: the module is not loaded, or configfs not mounted")
    path = f"{BASE}/{device}/{_FILE}"
    have = machine.read(path)
    if isinstance(have, Unreadable):
        return Skipped(setting, what, f"cannot be read: {have.reason}")
    now = have if isinstance(have, str) else NOTHING
    if now == str(want.tos):
        return None
    write = AttributeWrite(path, str(want.tos), folder=f"{BASE}/{device}")
    return wanted(setting, what, now, str(want.tos), (write,))


def taken(view: View) -> dict[str, str]:
    """What `restore` needs: device -> its traffic class, and whether its folder was there."""
    machine = view.state.machine
    if machine.shared or not machine.path(BASE).is_dir():
        return {}
    wants = [setting.want for setting in view.settings]
    names = [rdma_device(view, want.netdev) for want in wants if isinstance(want, RdmaTos)]
    found = {}
    for name in filter(None, names):
        folder = machine.path(f"{BASE}/{name}")
        there = folder.is_dir()
        with suppress(OSError):
            found[name] = json.dumps([_value(folder), there])
    return found


def _value(folder: Path) -> str:
    """The device's traffic class; the folder is as before."""
    made = not folder.is_dir()
    if made:
        folder.mkdir()
    try:
        return (folder / _FILE).read_text(encoding="ascii").strip()
    finally:
        if made:
            folder.rmdir()


def restore(machine: Machine, before: Mapping[str, str]) -> tuple[str, ...]:
    """Set the traffic classes as they were, under the names devices have again; returns what could not be."""
    wrong: list[str] = []
    for name, told in before.items():
        then, there = json.loads(told)
        folder = machine.path(f"{BASE}/{name}")
        try:
            folder.mkdir(exist_ok=True)
            if (folder / _FILE).read_text(encoding="ascii").strip() != then:
                (folder / _FILE).write_text(then, encoding="ascii")
            if not there:
                folder.rmdir()
        except OSError as error:
            wrong.append(f"rdma_cm's traffic class of {name}: {error.strerror}")
    if before:
        wrong += _swept(machine)
    return tuple(wrong)


def _swept(machine: Machine) -> Iterator[str]:
    """Remove folders of names that no device has any more: the kernel would not make them."""
    for folder in machine.path(BASE).glob("*"):
        if folder.is_dir() and not machine.path(f"/sys/class/infiniband/{folder.name}").exists():
            try:
                folder.rmdir()
            except OSError as error:
                yield f"{BASE}/{folder.name}: {error.strerror}"
