"""Kinds attribute and VF count: files of sysfs and configfs that belong to a port, and the folder a port has there.

VFs are counted by `sriov_numvfs` (Documentation/PCI/pci-iov-howto.rst). A count that is not 0 can only become 0, so
every change takes away all VFs first: it is refused while one of them is away in a namespace or given to vfio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.host.change import AttributeWrite, Change, Skipped, refused, wanted
from trackbed.host.machine import Absent, Unreadable
from trackbed.host.setting import Attribute, VfCount, VfProbe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trackbed.host.kinds.view import View
    from trackbed.host.machine import Machine
    from trackbed.host.setting import Setting, Want

_COUNT, _PROBE = "/sriov_numvfs", "/sriov_drivers_autoprobe"


def device(view: View, netdev: str, pci: str | None = None) -> str:
    """The folder of a port's PCI device: by its address, else by the name its interface has now; empty if none."""
    machine = view.state.machine
    if pci and machine.path(f"/sys/bus/pci/devices/{pci}").is_dir():
        return f"/sys/bus/pci/devices/{pci}"
    link = view.ports.get(netdev)
    folder = f"/sys/class/net/{link.name}/device" if link else ""
    return folder if folder and machine.path(folder).is_dir() else ""


def rdma_device(view: View, netdev: str) -> str:
    """The name of a port's RDMA device; empty if it has none, or more than one.

    A device of hardware lies below the port's PCI device; one of software (soft-RoCE) says which interface it is on.
    """
    link, machine = view.ports.get(netdev), view.state.machine
    if link is None:
        return ""
    found = [one.name for one in machine.path(f"/sys/class/net/{link.name}/device/infiniband").glob("*")]
    found = found or _soft(view).get(link.name, [])
    return found[0] if len(found) == 1 else ""


def _soft(view: View) -> Mapping[str, list[str]]:
    """RDMA devices by the interface that each says it is on; read once, and not for each of a hundred settings."""
    if not view.soft:
        machine = view.state.machine
        for one in machine.path("/sys/class/infiniband").glob("*"):
            on = machine.read(f"/sys/class/infiniband/{one.name}/ports/1/gid_attrs/ndevs/0")
            if isinstance(on, str):
                view.soft.setdefault(on, []).append(one.name)
    return view.soft


def attribute_of(want: Want, view: View) -> str:
    """The file that a want of these kinds speaks of; empty for other kinds, and where the port has none."""
    match want:
        case VfCount(netdev, pci):
            folder = device(view, netdev, pci)
            return folder + _COUNT if folder else ""
        case VfProbe(netdev, pci):
            folder = device(view, netdev, pci)
            return folder + _PROBE if folder else ""
        case Attribute(netdev, path):
            link, rdma = view.ports.get(netdev), rdma_device(view, netdev) if "{rdma}" in path else ""
            if link is None or ("{rdma}" in path and not rdma):
                return ""
            return path.format(netdev=link.name, rdma=rdma)
    return ""


def compare(setting: Setting, want: Attribute, view: View) -> Change | Skipped | None:
    """The attribute that has another value."""
    machine, path = view.state.machine, attribute_of(want, view)
    what = path or want.path.format(netdev=want.netdev, rdma=want.netdev)
    have = Absent() if machine.shared or not path else machine.read(path)
    if isinstance(have, Absent):
        return Skipped(setting, what, machine.shared or "this port's driver has no such file")
    if isinstance(have, Unreadable):
        return Skipped(setting, what, f"cannot be read: {have.reason}")
    now = _value(have)
    return None if now == want.value else wanted(setting, what, now, want.value, (AttributeWrite(path, want.value),))


def probe(setting: Setting, want: VfProbe, view: View) -> Change | Skipped | None:
    """The switch by which new VFs get their driver; those that are there stay as they are."""
    machine, what = view.state.machine, f"driver of new VFs of {want.netdev}"
    path = "" if machine.shared else attribute_of(want, view)
    if not path:
        return Skipped(setting, what, machine.shared or f"{want.netdev} is no PCI device here")
    have = machine.read(path)
    if not isinstance(have, str):
        return Skipped(setting, what, "this kernel or port has no such switch")
    return None if have == "1" else wanted(setting, what, "none", "its own", (AttributeWrite(path, "1"),))


def count(setting: Setting, want: VfCount, view: View) -> Change | Skipped | None:
    """VFs to make; a count that stands in the way is told where VFs are in use."""
    machine, what = view.state.machine, f"VFs of {want.netdev}"
    folder = "" if machine.shared else device(view, want.netdev, want.pci)
    if not folder:
        return Skipped(setting, what, machine.shared or f"{want.netdev} is no PCI device here")
    total, have = (_number(machine.read(folder + name)) for name in ("/sriov_totalvfs", _COUNT))
    wish = str(want.count)
    if total is None or have is None:
        advice = f"{want.netdev} offers no VFs; switch SR-IOV on in the BIOS and in the NIC's firmware, then reboot"
        return refused(setting, what, "no SR-IOV", wish, advice)
    if total < want.count:
        advice = f"the firmware of {want.netdev} offers {total} VFs at most; raise that (NUM_OF_VFS), or plan fewer"
        return refused(setting, what, f"{have} of {total}", wish, advice)
    if have == want.count:
        return None
    if busy := in_use(machine, folder):
        advice = f"the count can only change through 0, and {', '.join(busy)} are in use; drain this node first"
        return refused(setting, what, str(have), wish, advice)
    return wanted(setting, what, str(have), wish, (AttributeWrite(folder + _COUNT, wish, "0" if have else ""),))


def in_use(machine: Machine, folder: str) -> tuple[str, ...]:
    """PCI addresses of the VFs of a port that are away: given to vfio, or with a driver but no interface here."""
    found = []
    for virtual in sorted(machine.path(folder).glob("virtfn*")):
        driver = virtual / "driver"
        given = driver.exists() and driver.resolve().name.startswith("vfio")
        away = driver.exists() and not any((virtual / "net").glob("*"))
        if given or away:
            found.append(virtual.resolve().name)
    return tuple(found)


def restore(machine: Machine, before: Mapping[str, str]) -> tuple[str, ...]:
    """Write what is not as it was; returns what could not be."""
    wrong = []
    for path, value in before.items():
        now = machine.read(path)
        if isinstance(now, str) and _value(now) == _value(value):
            continue
        if busy := in_use(machine, path.removesuffix(_COUNT)) if path.endswith(_COUNT) else ():
            wrong.append(f"{path}: VFs {', '.join(busy)} are in use")
            continue
        try:
            if path.endswith(_COUNT) and now != "0":
                machine.write_attribute(path, "0")
            if not path.endswith(_COUNT) or value != "0":
                machine.write_attribute(path, _value(value))
        except OSError as error:
            wrong.append(f"{path}: {error.strerror}")
    return tuple(wrong)


def _value(text: str) -> str:
    """What a file says, as it wants to be told: a traffic class reads back as `Global tclass=106`."""
    return text.rpartition("=")[2] if "tclass=" in text else text


def _number(text: object) -> int | None:
    return int(text) if isinstance(text, str) and text.isdigit() else None
