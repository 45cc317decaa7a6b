"""The RDMA core above the drivers: devices over NETLINK_RDMA, their namespaces, and rdma_cm's folder in configfs."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.drivers.fuse import Attribute, Node
from trackbed.kernel.netlink import codec, rdma

_SYS_GET, _CHARDEV_ABI, _CHARDEVS = 6, 71, (231, 192)
_RDMA_CM = "kernel/config/rdma_cm"
_BYTE = 256


@dataclass
class RdmaDevice:
    """An RDMA device: its name, index, PCI device and namespace (an inode)."""

    name: str
    index: int
    pci: str
    node_guid: int
    namespace: int
    can_move: Callable[[], bool]
    """Whether its driver can let go of users."""
    tos: int = 0
    """rdma_cm's default, 0 whenever the device appears."""
    generation: int = 0
    """Its uverbs device gets another number whenever the device appears."""


@dataclass
class RdmaCore:
    """All RDMA devices of a host; in exclusive mode each is visible in its own namespace alone."""

    exclusive: bool = True
    devices: list[RdmaDevice] = field(default_factory=list)
    folders: set[str] = field(default_factory=set)
    """Devices that have a folder in rdma_cm's configfs."""

    def add(self, prefix: str, pci: str, node_guid: int, namespace: int, can_move: Callable[[], bool]) -> None:
        """Let a driver register a device."""
        index = max((device.index for device in self.devices), default=-1) + 1
        name = next(f"{prefix}{number}" for number in range(index + 1) if self.find(f"{prefix}{number}") is None)
        self.devices.append(RdmaDevice(name, index, pci, node_guid, namespace, can_move))

    def remove(self, pci: str) -> None:
        """Let a driver unregister its device."""
        for device in [device for device in self.devices if device.pci == pci]:
            self.devices.remove(device)
            self.folders.discard(device.name)

    def find(self, name: str) -> RdmaDevice | None:
        """Return a device by name."""
        return next((device for device in self.devices if device.name == name), None)

    def list_visible(self, namespace: int) -> list[RdmaDevice]:
        """Return the devices that a namespace sees."""
        return [device for device in self.devices if not self.exclusive or device.namespace == namespace]

    def answer(self, message_type: int, flags: int, body: bytes, namespace: int) -> list[bytes] | int:
        """Return the bodies that NETLINK_RDMA replies with, or a negative errno."""
        command, attributes = message_type & 0x3FF, codec.parse_attributes(body)
        visible = self.list_visible(namespace)
        if command == rdma.RDMA_NLDEV_CMD_GET and flags & codec.NLM_F_DUMP:
            return [_fill_device(device) for device in visible]
        if command == _SYS_GET:
            return [codec.pack_u8(rdma.RDMA_NLDEV_SYS_ATTR_NETNS_MODE, int(not self.exclusive))]
        if command == rdma.RDMA_NLDEV_CMD_SYS_SET:
            is_exclusive = not codec.as_int(attributes.get(rdma.RDMA_NLDEV_SYS_ATTR_NETNS_MODE))
            return [] if is_exclusive == self.exclusive else -errno.EBUSY
        index = codec.as_int(attributes.get(rdma.RDMA_NLDEV_ATTR_DEV_INDEX))
        device = next((device for device in visible if device.index == index), None)
        if device is None:
            return -errno.EINVAL
        if command in {rdma.RDMA_NLDEV_CMD_GET, rdma.RDMA_NLDEV_CMD_GET_CHARDEV}:
            return [_fill_device(device) if command == rdma.RDMA_NLDEV_CMD_GET else _fill_verbs(device)]
        return self._set(device, attributes)

    def _set(self, device: RdmaDevice, attributes: dict[int, memoryview]) -> list[bytes] | int:
        if rdma.RDMA_NLDEV_ATTR_DEV_NAME in attributes:
            name = codec.as_text(attributes[rdma.RDMA_NLDEV_ATTR_DEV_NAME])
            if self.find(name) is not None and name != device.name:
                return -errno.EEXIST
            self.folders.discard(device.name)
            device.name = name
            return []
        if not self.exclusive or not device.can_move():
            return -errno.EOPNOTSUPP
        device.namespace = os.fstat(codec.as_int(attributes[rdma.RDMA_NLDEV_NET_NS_FD])).st_ino
        device.generation += 1
        device.tos = 0
        return []

    def make_folder(self, path: str) -> None:
        """Take mkdir below /sys: a folder of rdma_cm, for a device in whatever namespace."""
        place = Path(path)
        if str(place.parent) != _RDMA_CM:
            raise PermissionError(errno.EPERM, path)
        self._require(place.name)
        self.folders.add(place.name)

    def remove_folder(self, path: str) -> None:
        """Take rmdir below /sys."""
        self.folders.discard(Path(path).name)

    def build_configfs(self) -> dict[str, Node]:
        """Return rdma_cm's folder."""
        return {name: self._build_folder(name) for name in sorted(self.folders)}

    def _build_folder(self, name: str) -> dict[str, Node]:
        tos = Attribute(lambda: f"{self._require(name).tos}\n", partial(self._write_tos, name))
        return {"ports": {"1": {"default_roce_mode": "RoCE v2\n", "default_roce_tos": tos}}}

    def _require(self, name: str) -> RdmaDevice:
        device = self.find(name)
        if device is None:
            raise OSError(errno.ENODEV, name)
        return device

    def _write_tos(self, name: str, text: str) -> None:
        try:
            value = int(text.strip(), 0)
        except ValueError:
            raise OSError(errno.EINVAL, name) from None
        if not 0 <= value < _BYTE:
            raise OSError(errno.ERANGE, name)
        self._require(name).tos = value


def _fill_device(device: RdmaDevice) -> bytes:
    return (
        codec.pack_u32(rdma.RDMA_NLDEV_ATTR_DEV_INDEX, device.index)
        + codec.pack_string(rdma.RDMA_NLDEV_ATTR_DEV_NAME, device.name)
        + codec.pack_u32(rdma.RDMA_NLDEV_ATTR_PORT_INDEX, 1)
        + codec.pack_attribute(rdma.RDMA_NLDEV_ATTR_NODE_GUID, struct.pack("=Q", device.node_guid))
        + codec.pack_attribute(rdma.RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, struct.pack("=Q", device.node_guid))
    )


def _fill_verbs(device: RdmaDevice) -> bytes:
    major, first = _CHARDEVS
    number = device.index + 16 * device.generation
    return (
        codec.pack_string(rdma.RDMA_NLDEV_ATTR_CHARDEV_NAME, f"uverbs{number}")
        + codec.pack_attribute(rdma.RDMA_NLDEV_ATTR_CHARDEV, struct.pack("=Q", os.makedev(major, first + number)))
        + codec.pack_u32(_CHARDEV_ABI, 6)
    )
