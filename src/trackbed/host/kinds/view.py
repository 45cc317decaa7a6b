"""The state of a machine, and the settings with which it is compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from trackbed.host.machine import Absent, Machine
from trackbed.host.setting import Setting
from trackbed.host.state import HostState
from trackbed.kernel.netlink.links import Link

_T = TypeVar("_T")
_W = TypeVar("_W")


@dataclass(frozen=True)
class View:
    """The state of a machine, its wanted settings, and the interface of each planned port that exists."""

    state: HostState
    settings: tuple[Setting, ...]
    ports: Mapping[str, Link]
    memory: dict[Callable[[View], object], Any] = field(default_factory=dict)

    @property
    def machine(self) -> Machine:
        """The machine; each file is read once."""
        return self.state.machine

    @property
    def indexes(self) -> frozenset[int]:
        """Interface indexes of all ports."""
        return frozenset(link.index for link in self.ports.values())

    def list_wants(self, want_type: type[_W]) -> list[_W]:
        """Return the wants of one type."""
        return [setting.want for setting in self.settings if isinstance(setting.want, want_type)]

    def read_once(self, read: Callable[[View], _T]) -> _T:
        """Call `read` once and cache its result, so that compare and read_undo_data use the same data."""
        if read not in self.memory:
            self.memory[read] = read(self)
        reading: _T = self.memory[read]
        return reading

    def find_rail(self, index: int) -> int | None:
        """Return the rail of the port with an interface index; None if no port has it."""
        indexes = ((setting.rail, self.ports.get(setting.netdev)) for setting in self.settings)
        return next((rail for rail, link in indexes if link and link.index == index), None)

    def find_name_holder(self, name: str) -> Link | None:
        """Return the interface with this name that is not one of the ports; None if there is none."""
        link = self.state.find_link(name)
        return link if link and link.index not in self.indexes else None

    def has_ipv6(self, netdev: str) -> bool:
        """Return whether IPv6 is enabled: on a port, or in the kernel if `netdev` is empty."""
        if netdev:
            return self.machine.read_sysctl(f"net/ipv6/conf/{self.ports[netdev].name}/disable_ipv6") == "0"
        return not isinstance(self.machine.read_sysctl("net/ipv6/conf/all/disable_ipv6"), Absent)
