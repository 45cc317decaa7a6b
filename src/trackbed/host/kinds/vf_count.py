"""Kind VF count: a port has the planned number of virtual functions.

The count is `sriov_numvfs` (Documentation/PCI/pci-iov-howto.rst). It can change only from or to 0, so a change removes
all VFs first. Therefore it is not changed while a VF is in another namespace or bound to vfio.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trackbed.host.change import AttributeWrite, AwaitVfs, Change, Skipped, build_change, build_manual_change
from trackbed.host.kinds.kind import Kind, UndoData
from trackbed.host.kinds.sysfs import find_device, read_undo_files
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting

_COUNT = "/sriov_numvfs"


class Want(NamedTuple):
    """Port `netdev` (PCI address `pci`, if the Fabric has it) has `count` virtual functions."""

    netdev: str
    pci: str | None
    count: int  # type: ignore[assignment] # the field hides a method of tuple

    def __str__(self) -> str:
        return f"VFs of {self.netdev}"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of the count, or advice if VFs are in use."""
    machine, subject, planned = view.machine, str(want), str(want.count)
    folder = find_device(view, want.netdev, want.pci)
    if not folder:
        return Skipped(setting, subject, machine.shared_reason or f"{want.netdev} is no PCI device here")
    total, have = (_parse_count(machine.read(folder + name)) for name in ("/sriov_totalvfs", _COUNT))
    if total is None or have is None:
        advice = f"{want.netdev} offers no VFs; switch SR-IOV on in the BIOS and in the NIC's firmware, then reboot"
        return build_manual_change(setting, subject, "no SR-IOV", planned, advice)
    if total < want.count:
        advice = f"the firmware of {want.netdev} offers {total} VFs at most; raise that (NUM_OF_VFS), or plan fewer"
        return build_manual_change(setting, subject, f"{have} of {total}", planned, advice)
    if have == want.count:
        return None
    if busy := list_busy_vfs(machine, folder):
        advice = f"the count can only change through 0, and {', '.join(busy)} are in use; drain this node first"
        return build_manual_change(setting, subject, str(have), planned, advice)._replace(needs_drain=True)
    write = AttributeWrite(folder + _COUNT, planned, "0" if have else "")
    operations = (write, AwaitVfs(folder))
    return build_change(setting, subject, str(have), planned, operations)._replace(removed=max(0, have - want.count))


def replaces_vfs(setting: Setting, changes: Sequence[Change]) -> bool:
    """Return whether one of the changes replaces all VFs of the setting's port."""
    counted = [change.setting for change in changes if change.setting and isinstance(change.setting.want, Want)]
    return any(other.netdev == setting.netdev for other in counted)


def list_busy_vfs(machine: Machine, folder: str) -> list[str]:
    """List the PCI addresses of a port's VFs that are bound to vfio, or have a driver but no interface here."""
    busy = []
    for virtual in sorted(machine.locate(folder).glob("virtfn*")):
        driver = virtual / "driver"
        is_away = not any((virtual / "net").glob("*")) or driver.resolve().name.startswith("vfio")
        if driver.exists() and is_away:
            busy.append(virtual.resolve().name)
    return busy


def read_undo_data(view: View) -> UndoData:
    """Return the VF counts by the path of `sriov_numvfs`."""
    folders = [find_device(view, want.netdev, want.pci) for want in view.list_wants(Want)]
    return read_undo_files(view, [folder + _COUNT for folder in folders if folder])


def count_entries(view: View) -> int:
    """Return the number of VFs of all ports."""
    return sum(_parse_count(text) or 0 for text in read_undo_data(view).values())


def restore(machine: Machine, undo_data: UndoData) -> Iterator[str]:
    """Restore the counts that differ, each by way of 0; yield failures as text."""
    for path, value in undo_data.items():
        have = machine.read(path)
        if have == value:
            continue
        if busy := list_busy_vfs(machine, path.removesuffix(_COUNT)):
            yield f"{path}: VFs {', '.join(busy)} are in use"
            continue
        try:
            if have != "0":
                machine.write_attribute(path, "0")
            if value != "0":
                machine.write_attribute(path, value)
        except OSError as error:
            yield f"{path}: {error.strerror}"
            continue
        if machine.read(path) != value:
            yield f"{path}: the driver ignored {value}; bnxt_en does while the port is down"


def _parse_count(text: object) -> int | None:
    return int(text) if isinstance(text, str) and text.isdigit() else None


KIND = Kind("vf_count", (Want,), compare, read_undo_data=read_undo_data, restore=restore, count_entries=count_entries)
