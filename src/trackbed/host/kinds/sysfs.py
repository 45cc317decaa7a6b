"""Files of sysfs and configfs that belong to a port: its PCI device's folder, its RDMA device, values for undo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trackbed.host.kinds.kind import Kept
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine


def find_device(view: View, netdev: str, pci: str | None) -> str:
    """Return the folder of a port's PCI device: by its address, else by the interface's name; empty if none.

    Empty, too, on a machine whose devices are another's (`Machine.shared`).
    """
    machine, link = view.machine, view.ports.get(netdev)
    folders = [f"/sys/bus/pci/devices/{pci}"] if pci else []
    folders += [f"/sys/class/net/{link.name}/device"] if link else []
    return "" if machine.shared_reason else next((folder for folder in folders if machine.locate(folder).is_dir()), "")


def find_rdma_device(view: View, netdev: str) -> str:
    """Return the name of a port's RDMA device.

    The name is empty if the port has no such device or several, or if the view's /sys is that of another machine.
    """
    return view.read_once(_read_rdma_devices).get(netdev, "")


def _read_rdma_devices(view: View) -> dict[str, str]:
    """Read the RDMA device of each port.

    A device of hardware lies below the port's PCI device; one of software (soft-RoCE) names the interface it is on.
    """
    machine = view.machine
    if machine.shared_reason:
        return {}
    soft: dict[str, list[str]] = {}
    for device in machine.locate("/sys/class/infiniband").glob("*"):
        interface = machine.read(f"/sys/class/infiniband/{device.name}/ports/1/gid_attrs/ndevs/0")
        if isinstance(interface, str):
            soft.setdefault(interface, []).append(device.name)
    devices = {}
    for netdev, link in view.ports.items():
        hardware = [place.name for place in machine.locate(f"/sys/class/net/{link.name}/device/infiniband").glob("*")]
        devices[netdev] = hardware or soft.get(link.name, [])
    return {netdev: names[0] for netdev, names in devices.items() if len(names) == 1}


def keep_files(view: View, paths: Iterable[str]) -> Kept:
    """Return the content of files by path, without those that are absent; an empty path stands for no file."""
    if view.machine.shared_reason:
        return {}
    return {path: value for path in filter(None, paths) if isinstance(value := view.machine.read(path), str)}


def restore_files(machine: Machine, kept: Kept) -> Iterator[str]:
    """Write the files whose value differs; yield what could not be written."""
    for path, value in kept.items():
        content = machine.read(path)
        try:
            if not isinstance(content, str) or parse_value(content) != parse_value(value):
                machine.write_attribute(path, parse_value(value))
        except OSError as error:
            yield f"{path}: {error.strerror}"


def parse_value(text: str) -> str:
    """Return the value as it is written: a traffic class reads as `Global tclass=106`."""
    return text.rpartition("=")[2] if "tclass=" in text else text
