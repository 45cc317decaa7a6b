"""A model of the kernel's RDMA devices in exclusive mode, in place of NETLINK_RDMA (drivers/infiniband/core/device.c).

A device keeps its index in any namespace, names are unique on the whole host, soft devices do not move, and a device of
a namespace that ends returns to the host.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.netns import read_inode
from trackbed.kernel.netlink.rdma import RDMA_NLDEV_ATTR_DEV_INDEX, RDMA_NLDEV_ATTR_DEV_NAME, RDMA_NLDEV_NET_NS_FD
from trackbed.kernel.netlink.rdma import RdmaDevice as Listed
from trackbed.kernel.netlink.sockets import BatchError, Failure
from trackbed.node.rails.sandbox import OWN_NETNS


@dataclass
class Device:
    """An RDMA device; `netdev` is the host's name of the port or VF below it."""

    index: int
    name: str
    guid: str
    netns: int
    netdev: str = ""


@dataclass
class RdmaKernel:
    """All RDMA devices of a host."""

    devices: dict[int, Device] = field(default_factory=dict)

    def create(self, name: str, guid: str, netns: int, netdev: str = "") -> None:
        """Create a device with the next index, unless the name is taken."""
        if all(device.name != name for device in self.devices.values()):
            index = max(self.devices, default=-1) + 1
            self.devices[index] = Device(index, name, guid, netns, netdev)

    def rename(self, device: Device, name: str) -> int:
        """Rename a device; return 0 or an errno."""
        if any(other.name == name for other in self.devices.values()):
            return errno.EEXIST
        device.name = name
        return 0

    def end_netns(self, netns: int, host: int) -> None:
        """Return the devices of a namespace that ends to the host."""
        for device in list(self.devices.values()):
            if device.netns == netns and device.netdev:
                device.netns = host
            elif device.netns == netns:
                del self.devices[device.index]

    def open_socket(self, _: int, netns: Path | int | None = None) -> RdmaSocket:
        """Return a socket in a namespace, or in that of the thread."""
        return RdmaSocket(self, read_inode(Path(OWN_NETNS) if netns is None else netns))


class RdmaSocket:
    """A netlink socket in one namespace."""

    def __init__(self, kernel: RdmaKernel, netns: int) -> None:
        self._kernel = kernel
        self._netns = netns

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""

    def list_devices(self) -> tuple[Listed, ...]:
        """Return the devices in the socket's namespace."""
        visible = [device for device in self._kernel.devices.values() if device.netns == self._netns]
        return tuple(Listed(device.index, device.name, 1, device.guid, "", "", "roce") for device in visible)

    def send(self, messages: Sequence[Message]) -> None:
        """Rename and move devices. Raises BatchError."""
        answers = [self._handle(codec.parse_attributes(message.body)) for message in messages]
        failures = [Failure(index, number, "") for index, number in enumerate(answers) if number]
        if failures:
            raise BatchError(tuple(failures))

    def _handle(self, attributes: dict[int, memoryview]) -> int:
        device = self._kernel.devices[codec.as_int(attributes[RDMA_NLDEV_ATTR_DEV_INDEX])]
        if device.netns != self._netns:
            return errno.EINVAL
        if RDMA_NLDEV_ATTR_DEV_NAME in attributes:
            return self._kernel.rename(device, codec.as_text(attributes[RDMA_NLDEV_ATTR_DEV_NAME]))
        if not device.netdev:
            return errno.EOPNOTSUPP
        device.netns = os.fstat(codec.as_int(attributes[RDMA_NLDEV_NET_NS_FD])).st_ino
        return 0
