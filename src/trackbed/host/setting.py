"""One wanted fact on a host. Steps yield settings; they never touch a machine.

A setting says what is wanted (`want`, one of the frozen values below) and why. `kinds` has one module for each kind of
want that reads it, compares it, writes it, makes it survive a reboot and undoes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trackbed.fabric.plan.routes import Route, Rule

if TYPE_CHECKING:
    from trackbed.fabric.plan.plan import Addressed

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

HEAD = "# Written by Trackbed from the Fabric; changes made here are lost at the next `trackbed apply`.\n"
"""First line of every file of ours."""

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


@dataclass(frozen=True, slots=True)
class KernelArguments:
    """The kernel is started with these arguments, now and at the next boot.

    Each of `groups` is one argument (`iommu=pt`), or several that only together mean something
    (`hugepagesz=1G hugepages=16`). `iommu` asks for the IOMMU in pass-through; how that is said depends on the CPU.
    """

    groups: tuple[str, ...]
    iommu: bool = False


@dataclass(frozen=True, slots=True)
class HugePages:
    """The kernel holds at least `count` huge pages of `size_kib` KiB."""

    size_kib: int
    count: int


@dataclass(frozen=True, slots=True)
class File:
    """A whole file of ours has this content; where none of `needs` (paths, `*` allowed) exists it has no meaning.

    `lack` says in words what is missing then. `after` is a command that makes a program read the file. `note` is what
    a person must do besides, because Trackbed would disturb what runs.
    """

    path: str
    content: str
    needs: tuple[str, ...] = ()
    lack: str = ""
    after: tuple[str, ...] = ()
    note: str = ""
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class RdmaNamespaces:
    """RDMA devices belong to one network namespace (`exclusive`) or are seen in all (`shared`)."""

    mode: str


@dataclass(frozen=True, slots=True)
class RdmaName:
    """The RDMA device of port `netdev` is called `name`."""

    netdev: str
    name: str


@dataclass(frozen=True, slots=True)
class VfCount:
    """Port `netdev` (PCI address `pci`, where the Fabric knows it) has `count` virtual functions."""

    netdev: str
    pci: str | None
    count: int


@dataclass(frozen=True, slots=True)
class VfProbe:
    """VFs of port `netdev` (PCI address `pci`, where the Fabric knows it) get their driver as they are made."""

    netdev: str
    pci: str | None


@dataclass(frozen=True, slots=True)
class VfGuard:
    """What VF number `vf` (from 0) of port `netdev` may do: change its MAC address, send with a foreign one."""

    netdev: str
    vf: int
    trust: bool
    spoof_check: bool


@dataclass(frozen=True, slots=True)
class VfMtu:
    """The interface of VF number `vf` (from 0) of port `netdev` has this MTU, as long as it is on the host."""

    netdev: str
    pci: str | None
    vf: int
    mtu_bytes: int


@dataclass(frozen=True, slots=True)
class DcbPfc:
    """Port `netdev` pauses these priorities (0 to 7, IEEE 802.1Qbb) rather than drop, and no others."""

    netdev: str
    priorities: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DcbDscp:
    """Port `netdev` goes by the DSCP, and each DSCP of `priorities` (DSCP, priority) has its priority."""

    netdev: str
    priorities: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class DcbEts:
    """On port `netdev` the priority has a traffic class that no other priority is in; `first` is served before it."""

    netdev: str
    priority: int
    first: int


@dataclass(frozen=True, slots=True)
class RdmaTos:
    """Connections by rdma_cm over the RDMA device of port `netdev` begin with this traffic class (IPv4: TOS)."""

    netdev: str
    tos: int


@dataclass(frozen=True, slots=True)
class Memlock:
    """Processes called `process` may lock memory without limit (RLIMIT_MEMLOCK, setrlimit(2))."""

    process: str
    by: str
    """The file by which they have it once they are started anew."""


@dataclass(frozen=True, slots=True)
class CpuState:
    """kubelet's CPU manager has no state, or that of this policy."""

    policy: str


@dataclass(frozen=True, slots=True)
class KubeletReads:
    """The kubelet that runs reads drop-ins from `folder`, and has started since `file` was written."""

    folder: str
    file: str


@dataclass(frozen=True, slots=True)
class Attribute:
    """A file of sysfs or configfs that belongs to port `netdev` holds `value`.

    `path` may say {netdev} and {rdma}, which stand for the port's present names.
    """

    netdev: str
    path: str
    value: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a NIC's firmware, as mlxconfig names it, with its value as a number."""

    name: str
    value: str
    at_least: bool = False
    """A larger number in the firmware is as good."""


@dataclass(frozen=True, slots=True)
class Firmware:
    """The NIC of port `netdev` (PCI address `pci`) has these parameters; those it does not know do not count."""

    netdev: str
    pci: str
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True)
class Module:
    """A kernel module is loaded (or built in)."""

    name: str


Want = (
    Name
    | Mtu
    | Up
    | Address
    | RouteOn
    | Rule
    | Sysctl
    | KernelArguments
    | HugePages
    | File
    | RdmaNamespaces
    | RdmaName
    | VfCount
    | VfProbe
    | VfGuard
    | VfMtu
    | DcbPfc
    | DcbDscp
    | DcbEts
    | RdmaTos
    | Memlock
    | CpuState
    | KubeletReads
    | Attribute
    | Module
    | Firmware
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A wanted fact, the step it belongs to, the rail it is for (None: the whole host), and why it is wanted."""

    step: str
    want: Want
    rail: int | None
    why: str
