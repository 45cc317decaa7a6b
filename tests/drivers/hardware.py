"""NICs in a host: ports and VFs with real interfaces in namespaces, RDMA devices, and their part of sysfs."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from tests.drivers import fuse, wire
from tests.drivers.fuse import Node
from tests.drivers.names import Names
from tests.drivers.port import ZERO_MAC, Port, Vf, to_eui64
from tests.drivers.rdma_core import RdmaCore
from tests.drivers.sysfs import build_tree, stays
from tests.drivers.wire import IFLA_IFALIAS, KernelSocket
from trackbed.kernel.netlink import codec, links
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.links import VethEnd, build_create_veth, build_delete_link, build_set_link

_INFO = struct.Struct("=BxHiII")


@dataclass
class Hardware:
    """All NICs of a host whose network is `namespace` (a descriptor); cables end in `far` (likewise)."""

    ports: Sequence[Port]
    namespace: int
    far: int
    rdma: RdmaCore = field(default_factory=RdmaCore)
    extra: dict[str, Node] = field(default_factory=dict)
    """More of sysfs, by path below it."""
    made: int = 0
    names: Names = field(init=False)

    def __post_init__(self) -> None:
        """Find the ports' interfaces and give them an alias; make RDMA devices."""
        self.names = Names(self.namespace)
        for number, port in enumerate(self.ports):
            self.mark(f"eth{number}", port.pci)
            port.reopen = partial(self.reopen, port.pci)
            port.is_running = partial(self.is_up, port.pci)
            port.changed_mac = partial(self.change_mac, port)
            self.appear(port, port.pci, to_eui64(port.mac))

    # PCI

    def find_port(self, pci: str) -> Port | None:
        """Return the PF with this address."""
        return next((port for port in self.ports if port.pci == pci), None)

    def locate_vf(self, port: Port, number: int) -> str:
        """Return a VF's PCI address: they follow their PF."""
        return f"{port.pci[:8]}{(number + 1) >> 3:02x}.{(number + 1) & 7}"

    def find_vf(self, pci: str) -> tuple[Port, Vf] | None:
        """Return the VF with this address, and its PF."""
        for port in self.ports:
            for vf in port.vfs:
                if self.locate_vf(port, vf.number) == pci:
                    return port, vf
        return None

    def write_vf_count(self, port: Port, text: str) -> None:
        """Take a write to sriov_numvfs."""
        before = list(port.vfs)
        addresses = [self.locate_vf(port, vf.number) for vf in before]
        code = port.write_vf_count(text)
        if code:
            raise OSError(-code, "sriov_numvfs")
        if port.vfs == before:
            return
        for pci in addresses:
            self.disappear(pci)
        for vf in port.vfs:
            self.bind(port, vf)

    def bind(self, port: Port, vf: Vf) -> None:
        """Let the VF's driver take it: an interface and an RDMA device appear."""
        pci = self.locate_vf(port, vf.number)
        port.take_vf(vf)
        self.made += 1
        name = f"vf{self.made}"
        mac = vf.interface_mac if vf.interface_mac != ZERO_MAC else bytes([2, 0xBB, 0, 0, 0, self.made])
        with KernelSocket(self.namespace) as sock:
            sock.send([build_create_veth(VethEnd(name, mac=mac.hex(":")), VethEnd(f"far{name}", self.far))])
        with KernelSocket(self.far) as sock:
            sock.send([build_set_link(links.get_link(sock, f"far{name}").index, up=True)])
        self.mark(name, pci)
        self.appear(port, pci, vf.interface_node_guid)

    def appear(self, port: Port, pci: str, node_guid: int) -> None:
        """Let the RDMA driver of a function register a device."""
        if port.rdma_prefix:
            inode = os.fstat(self.namespace).st_ino
            self.rdma.add(port.rdma_prefix, pci, node_guid, inode, lambda: port.can_move_rdma)

    def disappear(self, pci: str) -> None:
        """Let a function's driver go: its interface and its RDMA device are gone."""
        self.rdma.remove(pci)
        entry = self.list_names().get(pci)
        if entry:
            with KernelSocket(self.namespace) as sock:
                sock.send([build_delete_link(entry[1])])

    def reload(self, port: Port) -> None:
        """Load a port's driver again: VFs and RDMA devices are gone, and a new RDMA device appears."""
        for vf in port.vfs:
            self.disappear(self.locate_vf(port, vf.number))
        self.rdma.remove(port.pci)
        port.start()
        self.appear(port, port.pci, to_eui64(port.mac))

    def write_bind(self, text: str) -> None:
        """Take a write to a driver's `bind`."""
        owner = self.find_vf(text.strip())
        if owner is None or owner[1].bound:
            raise OSError(errno.ENODEV, "bind")
        self.bind(*owner)

    def write_unbind(self, text: str) -> None:
        """Take a write to a driver's `unbind`."""
        owner = self.find_vf(text.strip())
        if owner is None or not owner[1].bound:
            raise OSError(errno.ENODEV, "unbind")
        owner[1].bound = False
        self.disappear(text.strip())

    # Interfaces

    def mark(self, name: str, pci: str) -> None:
        """Write the PCI address into an interface's alias."""
        with KernelSocket(self.namespace) as sock:
            index = links.get_link(sock, name).index
            alias = codec.pack_attribute(IFLA_IFALIAS, pci.encode())
            sock.send([Message(links.RTM_NEWLINK, 0, _INFO.pack(0, 0, index, 0, 0) + alias)])
        self.names.forget()

    def list_names(self) -> dict[str, tuple[str, int, str]]:
        """Return name, index and MAC of each interface in the host's namespace by PCI address."""
        return self.names.read()

    def is_up(self, pci: str) -> bool:
        """Tell whether an interface of the host is up."""
        name = self.list_names().get(pci, ("", 0, ""))[0]
        with KernelSocket(self.namespace) as sock:
            return bool(name) and links.get_link(sock, name).is_up

    def read_mtu(self, name: str) -> int:
        """Return an interface's MTU."""
        with KernelSocket(self.namespace) as sock:
            return links.get_link(sock, name).mtu

    def write_mtu(self, index: int, mtu: int) -> None:
        """Set an interface's MTU."""
        with KernelSocket(self.namespace) as sock:
            sock.send([build_set_link(index, mtu=mtu)])

    def reopen(self, pci: str) -> None:
        """Take an interface down and up (dev_close, dev_open): the kernel forgets routes, not IPv4 addresses."""
        entry = self.list_names().get(pci)
        if entry is None or not self.is_up(pci):
            return
        with KernelSocket(self.namespace) as sock:
            sock.send([build_set_link(entry[1], up=False), build_set_link(entry[1], up=True)])

    def change_mac(self, port: Port, number: int) -> None:
        """Give the interface of a VF, and its RDMA device, the address that its driver took meanwhile."""
        vf, pci = port.vfs[number], self.locate_vf(port, number)
        for device in (device for device in self.rdma.devices if device.pci == pci):
            device.node_guid = vf.interface_node_guid
        entry = self.list_names().get(pci)
        if entry:
            with KernelSocket(self.namespace) as sock:
                sock.send([build_set_link(entry[1], mac=vf.interface_mac.hex(":"))])

    def leave_namespace(self, pci: str) -> None:
        """The kernel moved an interface: dcbnl flushes what it had of it."""
        if port := self.find_port(pci):
            port.leave_namespace()


@contextmanager
def plug_in(
    ports: Sequence[Port], near: Path, far: Path, sysfs: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Hardware]:
    """NICs for the interfaces eth0, eth1 ... of a namespace, with sysfs at a folder; gone with the block."""
    namespace, far_namespace = os.open(near, os.O_RDONLY), os.open(far, os.O_RDONLY)
    try:
        hardware = Hardware(ports, namespace, far_namespace)
        wire.attach(hardware, monkeypatch)
        core = hardware.rdma
        folder = fuse.Folder(
            partial(build_tree, hardware), core.make_folder, core.remove_folder, partial(stays, hardware)
        )
        with closing(hardware.names), fuse.serve(sysfs, folder):
            yield hardware
    finally:
        os.close(namespace)
        os.close(far_namespace)
