"""A kernel's part of SR-IOV in a test's tree: VFs come and go with the count, and their drivers make interfaces.

A VF's driver gives its interface the MAC address that the port has set when it is bound, else one by chance, as
igbvf_probe and mlx5e_set_netdev_dev_addr do; an RDMA device's node GUID follows that address (node_guid_gen_from_mac).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.host.nics import FRESH, Drivers, install
from tests.host.places import Host
from tests.host.trees import grow
from trackbed.host.machine import Machine
from trackbed.kernel.netlink.links import VethEnd, build_create_veth, build_delete_link

ZERO = "00:00:00:00:00:00"


@dataclass
class Kernel:
    """The VFs of port `netdev` at PCI address `pci`."""

    host: Host
    drivers: Drivers
    netdev: str
    pci: str
    driver: str = "mlx5_core"
    has_rdma: bool = True
    bound: list[str] = field(default_factory=list)
    """PCI addresses in the order in which drivers were bound."""

    @property
    def folder(self) -> Path:
        """The port's folder in sysfs."""
        return self.host.machine.root / f"sys/devices/pci0000:00/{self.pci}"

    def name_pci(self, number: int) -> str:
        """The PCI address of a VF."""
        return f"{self.pci[:-1]}{number + 2}"

    def locate(self, number: int) -> Path:
        """A VF's folder in sysfs."""
        return self.folder.parent / self.name_pci(number)

    def name_interface(self, number: int) -> str:
        """The interface of a VF."""
        return f"{self.netdev}v{number}"

    def write(self, path: str, value: str) -> None:
        """Do what the kernel does when one of its files is written."""
        if path.endswith(f"{self.pci}/sriov_numvfs"):
            self.count(int(value))
        numbers = {self.name_pci(number): number for number in range(8)}
        if value in numbers and path.endswith("/unbind"):
            self.unbind(numbers[value])
        if value in numbers and path.endswith("/drivers_probe"):
            self.bind(numbers[value])

    def count(self, count: int) -> None:
        """Remove all VFs, then make so many."""
        for link in list(self.folder.glob("virtfn*")):
            number = int(link.name.removeprefix("virtfn"))
            self.unbind(number)
            link.unlink()
            self.drivers.guards.pop((self.netdev, number), None)
        for number in range(count):
            place = self.locate(number)
            place.mkdir(exist_ok=True)
            (self.folder / f"virtfn{number}").symlink_to(place)
            devices = self.host.machine.root / f"sys/bus/pci/devices/{place.name}"
            if not devices.is_symlink():
                devices.symlink_to(place)
            self.bind(number)

    def bind(self, number: int) -> None:
        """Let the driver make the VF's interface and RDMA device."""
        place, name = self.locate(number), self.name_interface(number)
        target = self.host.machine.root / f"sys/bus/pci/drivers/{self.driver}"
        target.mkdir(parents=True, exist_ok=True)
        (place / "driver").symlink_to(target)
        set_mac = self.drivers.guards.get((self.netdev, number), FRESH).mac or ZERO
        mac = f"06:00:00:00:{len(self.bound):02x}:{number:02x}" if set_mac == ZERO else set_mac
        self.host.send(build_create_veth(VethEnd(name, mac=mac), VethEnd(f"{name}x")))
        grow(place, {f"net/{name}/address": f"{mac}\n"})
        if self.has_rdma:
            plain = set_mac.replace(":", "")
            guid = (
                "0000:0000:0000:0000" if set_mac == ZERO else f"{plain[:4]}:{plain[4:6]}ff:fe{plain[6:8]}:{plain[8:]}"
            )
            grow(place, {f"infiniband/mlx5_{number}/node_guid": f"{guid}\n"})
        self.bound.append(place.name)

    def unbind(self, number: int) -> None:
        """Take interface, RDMA device and driver from a VF."""
        place, name = self.locate(number), self.name_interface(number)
        if not (place / "driver").is_symlink():
            return
        (place / "driver").unlink()
        if (place / "net" / name).exists():
            self.host.send(build_delete_link(self.host.index(name)))
        for file in sorted(place.rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()

    def hold(self, number: int) -> None:
        """Move a VF's interface into a pod."""
        place = self.locate(number) / "net" / self.name_interface(number)
        (place / "address").unlink()
        place.rmdir()

    def read_mac(self, number: int) -> str:
        """The address that a VF's interface has."""
        return (self.locate(number) / "net" / self.name_interface(number) / "address").read_text().strip()


def make_kernel(host: Host, monkeypatch: pytest.MonkeyPatch, netdev: str, pci: str) -> Kernel:
    """Let the port's VFs be those of a kernel with a driver of its own."""
    drivers = Drivers()
    install(drivers, monkeypatch)
    kernel, write = Kernel(host, drivers, netdev, pci), Machine.write_attribute

    def write_attribute(machine: Machine, path: str, value: str) -> None:
        write(machine, path, value)
        kernel.write(str(machine.locate(path).resolve()), value)

    monkeypatch.setattr(Machine, "write_attribute", write_attribute)
    (host.machine.root / "sys/bus/pci").mkdir(parents=True, exist_ok=True)
    return kernel
