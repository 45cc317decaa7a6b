"""The machine's state seen with the plan's eyes: which interface is which port, and where IPv6 exists."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trackbed.fabric.model.ranges import V4
from trackbed.fabric.plan.routes import MAIN_TABLE, Rule
from trackbed.host.kinds import dcb, vfs
from trackbed.host.kinds.names import port_of
from trackbed.host.machine import Absent
from trackbed.host.setting import (
    Address,
    Attribute,
    Mtu,
    Name,
    RdmaName,
    RdmaTos,
    RouteOn,
    Setting,
    Sysctl,
    Up,
    VfCount,
    VfGuard,
    VfMtu,
    VfProbe,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trackbed.host.state import HostState
    from trackbed.kernel.netlink.dcb import Dcb
    from trackbed.kernel.netlink.links import Link
    from trackbed.kernel.netlink.vfs import Vf


@dataclass(frozen=True, slots=True)
class View:
    """A state, the settings it is held against, and the interface of each planned netdev that is there."""

    state: HostState
    settings: tuple[Setting, ...]
    ports: Mapping[str, Link]
    ipv6: bool
    vfs: Mapping[str, tuple[Vf, ...]] = field(default_factory=dict)
    """VFs of each port by the name it has now, where settings ask for them; `dcb` is the same of DCB."""
    dcb: Mapping[str, Dcb] = field(default_factory=dict)
    soft: dict[str, list[str]] = field(default_factory=dict)
    """Names of RDMA devices by the interface each is on, once they were asked for (`attributes.rdma_device`)."""

    @property
    def indexes(self) -> frozenset[int]:
        """Indexes of all ports."""
        return frozenset(link.index for link in self.ports.values())

    @property
    def tables(self) -> frozenset[int]:
        """The route tables that belong to rails."""
        wanted = (setting.want for setting in self.settings)
        mine = {w.table if isinstance(w, Rule) else w.route.table for w in wanted if isinstance(w, Rule | RouteOn)}
        return frozenset(mine - {MAIN_TABLE})

    def rail_of(self, index: int) -> int | None:
        """The rail of a port's interface index."""
        return next(
            (s.rail for s in self.settings if (link := self.ports.get(netdev(s))) and link.index == index), None
        )

    def lacks(self, setting: Setting) -> str:
        """Why a setting has no meaning here; empty if it has."""
        name = netdev(setting)
        if name and not isinstance(setting.want, Name):
            if name not in self.ports:
                return f"there is no {name} yet"
            if self.taken(name):
                return f"{name} is another interface"
        return (
            ""
            if _version(setting) == V4 or self._has_ipv6(name)
            else f"IPv6 is disabled {f'on {name}' if name else ''}"
        )

    def taken(self, name: str) -> Link | None:
        """The interface that has a port's name and is no port."""
        holder = self.state.link(name)
        return holder if holder and holder.index not in self.indexes else None

    def _has_ipv6(self, name: str) -> bool:
        if not self.ipv6 or not name:
            return self.ipv6
        return self.state.sysctl(f"net/ipv6/conf/{self.ports[name].name}/disable_ipv6") == "0"


def view(state: HostState, settings: Iterable[Setting]) -> View:
    """Find every port. Where settings name no port (only some steps were asked), interfaces are taken by name."""
    listed = tuple(settings)
    names = {s.want.netdev: s.want for s in listed if isinstance(s.want, Name)}
    found = {
        name: port_of(state, names.get(name, Name(name, None, None, None))) for name in map(netdev, listed) if name
    }
    ipv6 = not isinstance(state.sysctl("net/ipv6/conf/all/disable_ipv6"), Absent)
    ports = {name: link for name, link in found.items() if link}
    alone = not state.machine.shared
    virtual = {s.want.netdev for s in listed if isinstance(s.want, VfGuard)} if alone else set()
    bridged = {s.want.netdev for s in listed if isinstance(s.want, dcb.WANTS)} if alone else set()
    told = vfs.read(state, [ports[name] for name in sorted(virtual & ports.keys())])
    spoken = dcb.read(state, [ports[name] for name in sorted(bridged & ports.keys())])
    return View(state, listed, ports, ipv6, told, spoken)


_OF_PORTS = Name | Mtu | Up | Address | RouteOn | RdmaName | RdmaTos | VfProbe | VfCount | VfGuard | VfMtu | Attribute


def netdev(setting: Setting) -> str:
    """The port a setting is about; empty if it is about the whole host."""
    want = setting.want
    if isinstance(want, _OF_PORTS | dcb.WANTS):
        return want.netdev
    if isinstance(want, Sysctl):
        parts = want.key.split("/")
        return parts[3] if parts[2:3] == ["conf"] else ""
    return ""


def _version(setting: Setting) -> int:
    want = setting.want
    if isinstance(want, Address):
        return want.own.version
    if isinstance(want, RouteOn):
        return want.route.to.version
    if isinstance(want, Rule):
        selector = want.source or want.unless_to
        return selector.version if selector else V4
    return V4
