"""Kind VF count: a port has the planned number of virtual functions.

VFs are counted by `sriov_numvfs` (Documentation/PCI/pci-iov-howto.rst). A count that is not 0 can only become 0, so
every change removes all VFs first: it is refused while one of them is in a namespace or given to vfio.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trackbed.host.change import AttributeWrite, Change, Skipped, advise, fulfil
from trackbed.host.kinds.kind import Kept, Kind
from trackbed.host.kinds.sysfs import find_device, keep_files
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting

_COUNT = "/sriov_numvfs"


class Want(NamedTuple):
    """Port `netdev` (PCI address `pci`, where the Fabric knows it) has `count` virtual functions."""

    netdev: str
    pci: str | None
    count: int  # type: ignore[assignment] # the field hides a method of tuple

    def __str__(self) -> str:
        return f"VFs of {self.netdev}"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of the count, or the advice where VFs are in use."""
    machine, subject, planned = view.machine, str(want), str(want.count)
    folder = find_device(view, want.netdev, want.pci)
    if not folder:
        return Skipped(setting, subject, machine.shared_reason or f"{want.netdev} is no PCI device here")
    total, have = (_parse_count(machine.read(folder + name)) for name in ("/sriov_totalvfs", _COUNT))
    if total is None or have is None:
        advice = f"{want.netdev} offers no VFs; switch SR-IOV on in the BIOS and in the NIC's firmware, then reboot"
        return advise(setting, subject, "no SR-IOV", planned, advice)
    if total < want.count:
        advice = f"the firmware of {want.netdev} offers {total} VFs at most; raise that (NUM_OF_VFS), or plan fewer"
        return advise(setting, subject, f"{have} of {total}", planned, advice)
    if have == want.count:
        return None
    if busy := list_busy(machine, folder):
        advice = f"the count can only change through 0, and {', '.join(busy)} are in use; drain this node first"
        return advise(setting, subject, str(have), planned, advice)
    return fulfil(
        setting, subject, str(have), planned, (AttributeWrite(folder + _COUNT, planned, "0" if have else ""),)
    )


def replaces_vfs(setting: Setting, changes: Sequence[Change]) -> bool:
    """Return whether one of the changes recreates the VFs of the setting's port, so that the compared VFs vanish."""
    counted = [change.setting for change in changes if change.setting and isinstance(change.setting.want, Want)]
    return any(other.netdev == setting.netdev for other in counted)


def list_busy(machine: Machine, folder: str) -> list[str]:
    """List the PCI addresses of a port's VFs that vfio has, or that have a driver but no interface here."""
    busy = []
    for virtual in sorted(machine.locate(folder).glob("virtfn*")):
        driver = virtual / "driver"
        is_away = not any((virtual / "net").glob("*")) or driver.resolve().name.startswith("vfio")
        if driver.exists() and is_away:
            busy.append(virtual.resolve().name)
    return busy


def keep(view: View) -> Kept:
    """Return the counts by path."""
    folders = [find_device(view, want.netdev, want.pci) for want in view.list_wants(Want)]
    return keep_files(view, [folder + _COUNT for folder in folders if folder])


def restore(machine: Machine, kept: Kept) -> Iterator[str]:
    """Restore the counts that differ, each through 0."""
    for path, value in kept.items():
        have = machine.read(path)
        if have == value:
            continue
        if busy := list_busy(machine, path.removesuffix(_COUNT)):
            yield f"{path}: VFs {', '.join(busy)} are in use"
            continue
        try:
            if have != "0":
                machine.write_attribute(path, "0")
            if value != "0":
                machine.write_attribute(path, value)
        except OSError as error:
            yield f"{path}: {error.strerror}"


def _parse_count(text: object) -> int | None:
    return int(text) if isinstance(text, str) and text.isdigit() else None


KIND = Kind("vf_count", (Want,), compare, keep=keep, restore=restore)
