"""The part of /sys that shows the NICs of a host, as it is now."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from tests.drivers.fuse import Attribute, Link, Node
from tests.drivers.port import Port, Vf
from tests.drivers.rdma_core import RdmaCore, RdmaDevice
from trackbed.kernel.netlink.exact import format_guid

Names = dict[str, tuple[str, int, str]]
"""Name, index and MAC of the interfaces in the host's namespace by PCI address."""


class Plugged(Protocol):
    """What a tree is built from, and who takes what is written to it."""

    ports: Sequence[Port]
    rdma: RdmaCore
    namespace: int
    extra: dict[str, Node]

    def list_names(self) -> Names:
        """Return the interfaces that the host has."""

    def locate_vf(self, port: Port, number: int) -> str:
        """Return a VF's PCI address."""

    def read_mtu(self, name: str) -> int:
        """Return an interface's MTU."""

    def write_mtu(self, index: int, mtu: int) -> None:
        """Set an interface's MTU."""

    def write_vf_count(self, port: Port, text: str) -> None:
        """Take a write to sriov_numvfs."""

    def write_bind(self, text: str) -> None:
        """Take a write to a driver's `bind`."""

    def write_unbind(self, text: str) -> None:
        """Take a write to a driver's `unbind`."""


def build_tree(plugged: Plugged) -> dict[str, Node]:
    """Return all of /sys."""
    names = plugged.list_names()
    devices: dict[str, Node] = {}
    for port in plugged.ports:
        devices[port.pci] = _build_pf(plugged, port, names)
        for vf in port.vfs:
            devices[plugged.locate_vf(port, vf.number)] = _build_vf(plugged, port, vf, names)
    visible = plugged.rdma.list_visible(os.fstat(plugged.namespace).st_ino)
    tree: dict[str, Node] = {
        "devices": {"pci0000:00": devices},
        "bus": {
            "pci": {
                "devices": {pci: Link(f"../../../devices/pci0000:00/{pci}") for pci in devices},
                "drivers": _build_drivers(plugged),
                "drivers_probe": Attribute(None, plugged.write_bind),
            }
        },
        "class": {
            "net": {
                name: Link(f"../../devices/pci0000:00/{pci}/net/{name}")
                for pci, (name, _, _) in names.items()
                if pci in devices
            },
            "infiniband": {
                device.name: Link(f"../../devices/pci0000:00/{device.pci}/infiniband/{device.name}")
                for device in visible
            },
        },
        "kernel": {"config": {"rdma_cm": dict(plugged.rdma.build_configfs())}},
        "module": {"ib_core": {"parameters": {"netns_mode": "N\n" if plugged.rdma.exclusive else "Y\n"}}},
    }
    for path, node in plugged.extra.items():
        _plant(tree, path, node)
    return tree


def stays(plugged: Plugged, path: str) -> bool:
    """Tell whether an entry is there as long as the NICs are: PFs with their files, and the folders of sysfs."""
    devices = [f"{folder}/{port.pci}" for port in plugged.ports for folder in ("devices/pci0000:00", "bus/pci/devices")]
    if any(path.startswith(f"{device}/") for device in devices):
        return not any(part in path for part in ("/net", "/infiniband", "/virtfn"))
    return path in devices or path in _FOLDERS or path.startswith("bus/pci/drivers/")


_FOLDERS = frozenset(
    [
        *("", "devices", "devices/pci0000:00", "bus", "bus/pci", "bus/pci/devices", "bus/pci/drivers", "module"),
        *("class", "class/net", "class/infiniband", "kernel", "kernel/config", "kernel/config/rdma_cm"),
    ]
)


def _build_pf(plugged: Plugged, port: Port, names: Names) -> dict[str, Node]:
    vendor, device, _ = port.ids
    folder = _build_function(plugged, port, port.pci, names)
    folder |= {
        "driver": Link(f"../../../bus/pci/drivers/{port.driver}"),
        "vendor": f"{vendor}\n",
        "device": f"{device}\n",
        "sriov_totalvfs": f"{port.total_vfs}\n",
        "sriov_numvfs": Attribute(lambda: f"{len(port.vfs)}\n", partial(plugged.write_vf_count, port)),
        "sriov_drivers_autoprobe": Attribute(lambda: "1\n", lambda _: None),
    }
    for vf in port.vfs:
        folder[f"virtfn{vf.number}"] = Link(f"../{plugged.locate_vf(port, vf.number)}")
    return folder


def _build_vf(plugged: Plugged, port: Port, vf: Vf, names: Names) -> dict[str, Node]:
    vendor, _, device = port.ids
    folder = _build_function(plugged, port, plugged.locate_vf(port, vf.number), names)
    folder |= {"vendor": f"{vendor}\n", "device": f"{device}\n", "physfn": Link(f"../{port.pci}")}
    if vf.bound:
        folder["driver"] = Link(f"../../../bus/pci/drivers/{port.vf_module}")
    return folder


def _build_function(plugged: Plugged, port: Port, pci: str, names: Names) -> dict[str, Node]:
    folder: dict[str, Node] = {
        "class": "0x020700\n" if port.infiniband else "0x020000\n",
        "numa_node": "0\n",
        "uevent": Attribute(lambda: f"PCI_SLOT_NAME={pci}\n", lambda _: None),
    }
    if pci in names:
        folder["net"] = {names[pci][0]: _build_interface(plugged, port, *names[pci])}
    visible = plugged.rdma.list_visible(os.fstat(plugged.namespace).st_ino)
    devices: dict[str, Node] = {device.name: _build_device(port, device) for device in visible if device.pci == pci}
    return folder | {"infiniband": devices} if devices else folder


def _build_interface(plugged: Plugged, port: Port, name: str, index: int, mac: str) -> dict[str, Node]:
    kind = "32" if port.infiniband else "1"
    return {
        "device": Link("../.."),
        "address": f"{mac}\n",
        "ifindex": f"{index}\n",
        "type": f"{kind}\n",
        "mtu": Attribute(lambda: f"{plugged.read_mtu(name)}\n", lambda text: plugged.write_mtu(index, int(text))),
        "uevent": Attribute(lambda: f"INTERFACE={name}\nIFINDEX={index}\n", lambda _: None),
    }


def _build_device(port: Port, device: RdmaDevice) -> dict[str, Node]:
    layer = "InfiniBand" if port.infiniband else "Ethernet"
    return {
        "device": Link("../.."),
        "node_guid": format_guid(device.node_guid) + "\n",
        "ports": {"1": {"link_layer": f"{layer}\n", "state": "4: ACTIVE\n"}},
    }


def _build_drivers(plugged: Plugged) -> dict[str, Node]:
    drivers: dict[str, Node] = {}
    for name in {name for port in plugged.ports for name in (port.driver, port.vf_module)} - {""}:
        functions: dict[str, Node] = {
            port.pci: Link(f"../../../../devices/pci0000:00/{port.pci}")
            for port in plugged.ports
            if port.driver == name
        }
        files: dict[str, Node] = {
            "bind": Attribute(None, plugged.write_bind),
            "unbind": Attribute(None, plugged.write_unbind),
        }
        drivers[name] = functions | files
    return drivers


def _plant(tree: dict[str, Node], path: str, node: Node) -> None:
    *folders, name = path.split("/")
    for folder in folders:
        below = tree.setdefault(folder, {})
        assert isinstance(below, dict)
        tree = below
    tree[name] = node
