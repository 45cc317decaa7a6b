"""Kind VF probe: new VFs are bound to their driver (Documentation/ABI/testing/sysfs-bus-pci)."""

from __future__ import annotations

from typing import NamedTuple

from trackbed.host.change import AttributeWrite, Change, Skipped, build_change
from trackbed.host.kinds.kind import Kind, UndoData, keep_pods
from trackbed.host.kinds.sysfs import find_device, read_undo_files, restore_files
from trackbed.host.kinds.view import View
from trackbed.host.setting import Setting


class Want(NamedTuple):
    """New VFs of port `netdev` (PCI address `pci`, if the Fabric has it) are bound to their driver."""

    netdev: str
    pci: str | None

    def __str__(self) -> str:
        return f"driver of new VFs of {self.netdev}"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of a switch that is off; existing VFs are not changed."""
    machine, path = view.machine, _find_file(want, view)
    if not path:
        return Skipped(setting, str(want), machine.shared_reason or f"{want.netdev} is no PCI device here")
    have = machine.read(path)
    if not isinstance(have, str):
        return Skipped(setting, str(want), "this kernel or port has no such switch")
    return None if have == "1" else build_change(setting, str(want), "none", "its own", (AttributeWrite(path, "1"),))


def read_undo_data(view: View) -> UndoData:
    """Return the values of the autoprobe switches by path."""
    return read_undo_files(view, [_find_file(want, view) for want in view.list_wants(Want)])


def _find_file(want: Want, view: View) -> str:
    folder = find_device(view, want.netdev, want.pci)
    return f"{folder}/sriov_drivers_autoprobe" if folder else ""


KIND = Kind("vf_probe", (Want,), compare, read_undo_data=read_undo_data, restore=restore_files, disrupts_pods=keep_pods)
