"""Kind RDMA name: the name of a port's RDMA device. A device keeps its index when it is renamed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trackbed.host import rdma_core
from trackbed.host.change import Change, RdmaSet, Skipped, build_change, build_manual_change
from trackbed.host.kinds.kind import Kind, UndoData
from trackbed.host.kinds.sysfs import find_rdma_device
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting
from trackbed.kernel.netlink.rdma import build_rename_device


class Want(NamedTuple):
    """The RDMA device of port `netdev` is called `name`."""

    netdev: str
    name: str

    def __str__(self) -> str:
        return f"RDMA device of {self.netdev}"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the rename of a device with another name, or advice if Trackbed cannot rename it."""
    machine, subject, have = view.machine, str(want), find_rdma_device(view, want.netdev)
    if not have:
        return Skipped(setting, subject, machine.shared_reason or f"{want.netdev} has no RDMA device here")
    if have == want.name:
        return None
    if machine.locate(f"/sys/class/infiniband/{want.name}").exists():
        advice = f"another RDMA device is called {want.name}; give it another name: rdma dev set {want.name} name NAME"
        return build_manual_change(setting, subject, have, want.name, advice)
    index = view.read_once(_read_indexes).get(have)
    if index is None:
        return build_manual_change(
            setting, subject, have, want.name, f"run on this host: rdma dev set {have} name {want.name}"
        )
    return build_change(setting, subject, have, want.name, (RdmaSet(build_rename_device(index, want.name)),))


def read_undo_data(view: View) -> UndoData:
    """Return the name of each planned port's device by the device's index."""
    names = [name for want in view.list_wants(Want) if (name := find_rdma_device(view, want.netdev))]
    indexes = view.read_once(_read_indexes) if names else {}
    return {str(indexes[name]): name for name in names if name in indexes}


def restore(machine: Machine, undo_data: UndoData) -> Iterator[str]:
    """Restore the names of RDMA devices; yield failures and missing devices as text."""
    names = {str(index): name for name, index in rdma_core.read_device_indexes(machine).items()}
    for index, name in undo_data.items():
        if index not in names:
            yield f"RDMA device {name} is gone"
        elif names[index] != name and (why := rdma_core.send_message(machine, build_rename_device(int(index), name))):
            yield f"name {name} of RDMA device {names[index]}: {why}"


def _read_indexes(view: View) -> dict[str, int]:
    return rdma_core.read_device_indexes(view.machine)


KIND = Kind("rdma_name", (Want,), compare, read_undo_data=read_undo_data, restore=restore, holds_names=True)
