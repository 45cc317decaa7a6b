"""A port of a NIC as the kernel above its driver sees it: what dcbnl, rtnetlink, PCI and rdma_cm ask of each driver.

A driver's model is a subclass. Its functions return 0, a negative errno, or what the driver returns instead. All rules
of this module are rows of `rules.KERNEL`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from tests.drivers.rules import Rule
from trackbed.kernel.netlink.dcb import (
    DCB_CAP_DCBX_HOST,
    DCB_CAP_DCBX_VER_IEEE,
    IEEE_8021QAZ_TSA_STRICT,
    App,
    Ets,
    Pfc,
)

ZERO_MAC = bytes(6)
ETH_P_8021Q = 0x8100
SETTINGS = frozenset({"mac", "vlan", "rates", "spoof_check", "trust", "link_state"})
IEEE_HOST = DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_IEEE
ZEROS = (0,) * 8
NO_ETS = Ets(False, 8, False, ZEROS, ZEROS, (IEEE_8021QAZ_TSA_STRICT,) * 8, ZEROS)  # noqa: FBT003 - a field


def is_valid(mac: bytes) -> bool:
    """Tell whether a VF may have this address (is_valid_ether_addr)."""
    return mac != ZERO_MAC and not is_multicast(mac)


def to_eui64(mac: bytes) -> int:
    """Return the node GUID that RoCE drivers make of an interface's address (addrconf_addr_eui48)."""
    return int.from_bytes(bytes([mac[0] ^ 2]) + mac[1:3] + b"\xff\xfe" + mac[3:], "big")


def is_multicast(mac: object) -> bool:
    """Tell whether the group bit of an address is set."""
    return isinstance(mac, bytes) and bool(mac[0] & 1)


@dataclass
class Vf:
    """A virtual function as its PF's driver keeps it."""

    number: int
    mac: bytes = ZERO_MAC
    """Set through the PF; zeros: nobody has."""
    vlan: tuple[int, int, int] = (0, 0, ETH_P_8021Q)
    """Number, priority and protocol."""
    rates: tuple[int, int] = (0, 0)
    spoof_check: bool = False
    trust: bool = False
    link_state: int = 0
    node_guid: int = 0
    port_guid: int = 0
    bound: bool = True
    """Whether its driver has it."""
    interface_mac: bytes = ZERO_MAC
    """Of its interface, which its driver chose when it took the VF."""
    interface_node_guid: int = 0
    """Of its RDMA device, likewise."""


@dataclass
class Port:
    """One PF; `pci` is its address and `mac` that of its interface."""

    rules: ClassVar[tuple[Rule, ...]] = ()
    driver: ClassVar[str] = ""
    module: ClassVar[str] = ""
    vf_module: ClassVar[str] = ""
    """The driver of its VFs."""
    ids: ClassVar[tuple[str, str, str]] = ("0x0000", "0x0000", "0x0000")
    """Vendor, device of the PF, device of its VFs."""
    rdma_prefix: ClassVar[str] = ""
    """Begin of its RDMA devices' names; empty: it has none."""
    infiniband: ClassVar[bool] = False
    vf_settings: ClassVar[frozenset[str]] = frozenset()
    """Fields of Vf for which the driver has a function."""
    vf_reports: ClassVar[frozenset[str]] = frozenset({"spoof_check", "trust", "link_state"})
    """Which of these it reports."""

    pci: str
    mac: bytes
    total_vfs: int = 8
    vfs: list[Vf] = field(default_factory=list)
    apps: list[App] = field(default_factory=list)
    """The kernel's table of this interface, newest first."""
    reopen: Callable[[], None] = lambda: None
    """Takes the interface down and up, with all that the kernel then forgets."""
    is_running: Callable[[], bool] = lambda: True
    changed_mac: Callable[[int], None] = lambda _: None
    """Gives a VF's interface the address that its driver took while it had it."""
    randoms: int = 0

    def start(self) -> None:
        """Do what the driver does at each start."""
        self.apps.clear()
        self.vfs.clear()

    # What dcbnl asks for

    @property
    def has_dcb(self) -> bool:
        """Whether the driver has functions for DCB at all."""
        return False

    @property
    def dcbx(self) -> int:
        """DCB_CAP_DCBX_* as the driver reports them."""
        return 0

    def get_ets(self) -> Ets | None:
        """Return ETS; None if the driver has no function for it."""
        return None

    def get_pfc(self) -> Pfc | None:
        """Return PFC; None if the driver has no function for it."""
        return None

    def set_ets(self, ets: Ets) -> int:  # noqa: ARG002 - nobody looks at it
        """Set ETS; a driver without the function says nothing."""
        return 0

    def set_pfc(self, pfc: Pfc) -> int:  # noqa: ARG002 - as above
        """Set PFC, likewise."""
        return 0

    def set_dcbx(self, mode: int) -> int:  # noqa: ARG002 - as above
        """Set who negotiates: 0 or 1 (refused)."""
        return -errno.EOPNOTSUPP

    def add_app(self, app: App) -> int:
        """Add an APP entry."""
        return self.keep_app(app)

    def delete_app(self, app: App) -> int:
        """Delete an APP entry."""
        return self.drop_app(app)

    def keep_app(self, app: App) -> int:
        """Add to the kernel's table."""
        if app in self.apps:
            return -errno.EEXIST
        self.apps.insert(0, app)
        return 0

    def drop_app(self, app: App) -> int:
        """Delete from the kernel's table."""
        if app not in self.apps:
            return -errno.ENOENT
        self.apps.remove(app)
        return 0

    def leave_namespace(self) -> None:
        """Forget what the kernel forgets of an interface that is unregistered, which a move is too."""
        self.apps.clear()

    # What rtnetlink asks for

    def set_vf(self, number: int, name: str, value: object) -> int:
        """Change one setting of a VF: `name` is a field of Vf."""
        if name not in self.vf_settings:
            return -errno.EOPNOTSUPP
        if code := self.check_vf(number, name, value):
            return code
        setattr(self.vfs[number], name, value)
        return 0

    def check_vf(self, number: int, name: str, value: object) -> int:  # noqa: ARG002 - drivers look at them
        """Return 0 if the driver takes the value, which for a VF that does not exist it never does."""
        return 0 if number < len(self.vfs) else -errno.EINVAL

    def report_vf(self, number: int) -> Vf:
        """Return what the driver reports of a VF."""
        return self.vfs[number]

    # What PCI asks for

    def set_vf_count(self, count: int) -> int:
        """Create VFs where there are none, or remove all; returns how many there are, or a negative errno."""
        self.vfs = [self.make_vf(number) for number in range(count)]
        return count

    def make_vf(self, number: int) -> Vf:
        """Return a VF as the driver makes it."""
        return Vf(number)

    def write_vf_count(self, text: str) -> int:
        """Take a write to sriov_numvfs; returns 0 or a negative errno."""
        if not text.strip().isdigit():
            return -errno.EINVAL
        count = int(text)
        if count > self.total_vfs:
            return -errno.ERANGE
        if count == len(self.vfs):
            return 0
        if count and self.vfs:
            return -errno.EBUSY
        return min(0, self.set_vf_count(count))

    # What a VF's driver does

    def take_vf(self, vf: Vf) -> None:
        """Let the VF's driver have it: it takes the address that was set through the PF, else one at random."""
        vf.bound = True
        vf.interface_mac = vf.mac if is_valid(vf.mac) else self.make_random_mac()
        vf.interface_node_guid = to_eui64(vf.interface_mac)

    def make_random_mac(self) -> bytes:
        """Return another address at each call, as eth_hw_addr_random does."""
        self.randoms += 1
        return bytes([0x02, 0xAA, *self.randoms.to_bytes(2, "big"), *bytes.fromhex(self.pci[5:7] + self.pci[8:10])])

    def passes(self, number: int, source: bytes) -> bool:
        """Tell whether the NIC sends a frame of this VF with this source address."""
        vf = self.vfs[number]
        return not vf.spoof_check or source == (vf.mac if is_valid(vf.mac) else vf.interface_mac)

    # What RDMA asks for

    @property
    def can_move_rdma(self) -> bool:
        """Whether its RDMA driver can let go of users, without which its devices keep their namespace."""
        return True
