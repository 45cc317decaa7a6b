"""Files of sysfs and configfs that belong to a port: the folder of its PCI device, its RDMA device, values for undo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trackbed.host.kinds.kind import UndoData
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine


def find_device(view: View, netdev: str, pci: str | None) -> str:
    """Return the folder of a port's PCI device, found by its PCI address, else by the interface.

    Empty without such a folder, or if the devices belong to another machine (`Machine.shared_reason`).
    """
    machine, link = view.machine, view.ports.get(netdev)
    folders = [f"/sys/bus/pci/devices/{pci}"] if pci else []
    folders += [f"/sys/class/net/{link.name}/device"] if link else []
    return "" if machine.shared_reason else next((folder for folder in folders if machine.locate(folder).is_dir()), "")


def find_rdma_device(view: View, netdev: str) -> str:
    """Return the name of a port's RDMA device.

    Empty without or with several RDMA devices, or if the devices belong to another machine (`Machine.shared_reason`).
    """
    return view.read_once(_read_rdma_devices).get(netdev, "")


def _read_rdma_devices(view: View) -> dict[str, str]:
    """Read the RDMA device of each port.

    Hardware is found below the port's PCI device; a software device (soft-RoCE) by the interface in its GID attributes.
    That is a name, which an interface in a pod may have, too: the node GUID tells them apart.
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
        devices[netdev] = hardware or _select_devices(machine, soft.get(link.name, []), link.mac)
    return {netdev: names[0] for netdev, names in devices.items() if len(names) == 1}


def _select_devices(machine: Machine, names: list[str], mac: str) -> list[str]:
    """Return the software devices of the interface with this MAC, if several have an interface of its name.

    The node GUID is made of the MAC (rxe_register_device of drivers/infiniband/sw/rxe, EUI-64 of RFC 4291 A).
    """
    number = bytes.fromhex(mac.replace(":", ""))
    if len(names) <= 1 or not number:
        return names
    guid = bytes([number[0] ^ 2, *number[1:3], 0xFF, 0xFE, *number[3:]]).hex()
    guids = {name: machine.read(f"/sys/class/infiniband/{name}/node_guid") for name in names}
    return [name for name, text in guids.items() if isinstance(text, str) and text.replace(":", "") == guid]


def read_undo_files(view: View, paths: Iterable[str]) -> UndoData:
    """Return the content of the existing files by path; empty paths are ignored."""
    if view.machine.shared_reason:
        return {}
    return {path: value for path in filter(None, paths) if isinstance(value := view.machine.read(path), str)}


def restore_files(machine: Machine, undo_data: UndoData) -> Iterator[str]:
    """Write the files whose value differs; yield failures."""
    for path, value in undo_data.items():
        content = machine.read(path)
        try:
            if not isinstance(content, str) or parse_value(content) != parse_value(value):
                machine.write_attribute(path, parse_value(value))
        except OSError as error:
            yield f"{path}: {error.strerror}"


def parse_value(text: str) -> str:
    """Return the value in the content of a file: a traffic class reads as `Global tclass=106`."""
    return text.rpartition("=")[2] if "tclass=" in text else text
