"""Kind VF probe: the switch by which new VFs get their driver (Documentation/ABI/testing/sysfs-bus-pci)."""

from __future__ import annotations

from typing import NamedTuple

from trackbed.host.change import AttributeWrite, Change, Skipped, fulfil
from trackbed.host.kinds.kind import Kept, Kind
from trackbed.host.kinds.sysfs import find_device, keep_files, restore_files
from trackbed.host.kinds.view import View
from trackbed.host.setting import Setting


class Want(NamedTuple):
    """VFs of port `netdev` (PCI address `pci`, where the Fabric knows it) get their driver as they are made."""

    netdev: str
    pci: str | None

    def __str__(self) -> str:
        return f"driver of new VFs of {self.netdev}"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of a switch that is off; VFs that exist keep what they have."""
    machine, path = view.machine, _find_file(want, view)
    if not path:
        return Skipped(setting, str(want), machine.shared_reason or f"{want.netdev} is no PCI device here")
    have = machine.read(path)
    if not isinstance(have, str):
        return Skipped(setting, str(want), "this kernel or port has no such switch")
    return None if have == "1" else fulfil(setting, str(want), "none", "its own", (AttributeWrite(path, "1"),))


def keep(view: View) -> Kept:
    """Return the switches by path."""
    return keep_files(view, [_find_file(want, view) for want in view.list_wants(Want)])


def _find_file(want: Want, view: View) -> str:
    folder = find_device(view, want.netdev, want.pci)
    return f"{folder}/sriov_drivers_autoprobe" if folder else ""


KIND = Kind("vf_probe", (Want,), compare, keep=keep, restore=restore_files)
