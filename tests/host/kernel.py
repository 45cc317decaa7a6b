"""The RDMA core of a captured tree: takes the messages that the real one takes, and changes the tree's sysfs."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import pytest

from tests.host.trees import grow
from trackbed.host import rdma_core
from trackbed.host.machine import Machine
from trackbed.kernel.netlink import codec, rdma
from trackbed.kernel.netlink.codec import Message, ReceivedMessage
from trackbed.kernel.netlink.sockets import BatchError, Failure

MODE = "/sys/module/ib_core/parameters/netns_mode"


@dataclass
class RdmaCore:
    """Devices get their indexes in the order of their names; what was asked stands in `heard`."""

    root: Path
    heard: list[str] = field(default_factory=list)
    refuses: int = 0
    """An errno, for everything that is to be set."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def close(self) -> None:
        """Nothing is open."""

    def dump(self, message: Message) -> list[ReceivedMessage]:
        """RDMA_NLDEV_CMD_GET."""
        assert message == rdma.build_device_dump()
        bodies = [
            codec.pack_u32(1, index) + codec.pack_string(2, name) + codec.pack_u32(3, 1)
            for name, index in self._devices().items()
        ]
        return [ReceivedMessage(message.type, 0, 1, memoryview(body)) for body in bodies]

    def send(self, messages: Sequence[Message]) -> None:
        """RDMA_NLDEV_CMD_SET and _SYS_SET."""
        if self.refuses:
            raise BatchError((Failure(0, self.refuses, ""),))
        for message in messages:
            self._set(message.type & 0x3FF, codec.parse_attributes(message.body))

    def _set(self, command: int, attributes: dict[int, memoryview]) -> None:
        if command == rdma.RDMA_NLDEV_CMD_SYS_SET:
            self.heard.append(f"mode {codec.as_int(attributes[66])}")
            grow(self.root, {MODE: "Y\n" if codec.as_int(attributes[66]) else "N\n"})
            return
        assert command == rdma.RDMA_NLDEV_CMD_SET
        index, new = codec.as_int(attributes[1]), codec.as_text(attributes[2])
        old = next((name for name, number in self._devices().items() if number == index), None)
        if old is None:
            raise BatchError((Failure(0, errno.EINVAL, ""),))
        self.heard.append(f"{old} becomes {new}")
        listed = self.root / "sys/class/infiniband" / old
        folder = (listed / "device").resolve() / "infiniband"
        listed.rename(listed.with_name(new))
        (folder / old).rename(folder / new)

    def _devices(self) -> dict[str, int]:
        """The index is that of the PCI device, which stays."""
        listed = sorted((self.root / "sys/class/infiniband").glob("*"), key=lambda path: (path / "device").resolve())
        return {path.name: number for number, path in enumerate(listed)}


def speak_to(core: RdmaCore | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let machines have this core, or none that answers."""

    def open_socket(_: Machine) -> RdmaCore | None:
        return core

    monkeypatch.setattr(rdma_core, "open_socket", open_socket)
