"""One wanted fact on a host. Steps yield settings; they never touch a machine.

A setting says what is wanted (`want`, one of the frozen values below) and why. `hosts` has one module for each kind of
want that reads it, compares it, writes it, makes it survive a reboot and undoes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trackbed.plan.routes import Route, Rule

if TYPE_CHECKING:
    from trackbed.plan.plan import Addressed

STEPS = (
    "bios",
    "cmdline",
    "firmware",
    "drivers",
    "rdma",
    "vfs",
    "names",
    "addresses",
    "routing",
    "qos",
    "limits",
    "kubelet",
    "runtime",
)
"""The host chain, cause before effect: the first step that is not sound is where to look."""

PROTOCOL = 114
"""Who made a route, rule or address (rtm_protocol, FRA_PROTOCOL, IFA_PROTO): 114 ("r") is Trackbed. Not taken in
include/uapi/linux/rtnetlink.h (84 is OVN, 99 Open/R, 186 to 198 FRR) nor in /etc/iproute2/rt_protos."""


@dataclass(frozen=True, slots=True)
class Name:
    """The port recognised by PCI address, MAC or kernel name is called `netdev`."""

    netdev: str
    pci: str | None
    mac: str | None
    kernel_name: str | None


@dataclass(frozen=True, slots=True)
class Mtu:
    """Interface `netdev` has this MTU."""

    netdev: str
    mtu_bytes: int


@dataclass(frozen=True, slots=True)
class Up:
    """Interface `netdev` is administratively up."""

    netdev: str


@dataclass(frozen=True, slots=True)
class Address:
    """Interface `netdev` has this address."""

    netdev: str
    own: Addressed


@dataclass(frozen=True, slots=True)
class RouteOn:
    """This route leads over interface `netdev` (for an unreachable route: belongs to it)."""

    netdev: str
    route: Route


@dataclass(frozen=True, slots=True)
class Sysctl:
    """The file `/proc/sys/<key>` holds `value`; `key` with slashes, so interface names may hold dots."""

    key: str
    value: str
    at_least: bool = False
    """A larger number on the machine is as good (table sizes)."""


Want = Name | Mtu | Up | Address | RouteOn | Rule | Sysctl


@dataclass(frozen=True, slots=True)
class Setting:
    """A wanted fact, the step it belongs to, the rail it is for (None: the whole host), and why it is wanted."""

    step: str
    want: Want
    rail: int | None
    why: str
