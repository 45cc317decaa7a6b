"""What one pod holds: an Attachment for each (container, interface) a runtime named, with a Port for each rail.

It is what the journal records, what the kernel is compared with, and what the runtime's result is made from, so it says
everything itself and needs no plan: the plan may have changed since.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Literal

import msgspec

from trackbed.fabric.model.ranges import V4, format_address, parse_address
from trackbed.fabric.plan.plan import AddressPlan

Key = tuple[str, str]
"""(CNI_CONTAINERID, CNI_IFNAME), which the CNI specification makes unique."""

MODES = ("macvlan", "sriov", "move")
"""How a pod gets a rail: an interface on the port, a VF of it, the port itself."""

PORT_ITSELF = -1
"""In place of a VF's number."""

_MAC_PREFIX = {4: "0e:7b", 6: "0e:7c"}
"""Locally administered, unicast (IEEE 802, second-lowest bit of the first byte)."""


class Address(msgspec.Struct, frozen=True, omit_defaults=True):
    """An address with its prefix length, as text, and its gateway; "" for none."""

    text: str
    gateway: str = ""

    @property
    def addressed(self) -> AddressPlan:
        """The same as the plan writes it."""
        return _addressed(self.text, self.gateway)


class HostAddress(msgspec.Struct, frozen=True, omit_defaults=True):
    """One address of a port on the host, as trackbed.kernel.netlink.addresses has it."""

    family: int
    address: int
    prefix: int
    scope: int = 0
    flags: int = 0


class HostRoute(msgspec.Struct, frozen=True, omit_defaults=True):
    """One route by a port on the host, as trackbed.kernel.netlink.routes has it."""

    family: int
    table: int
    dst: int
    prefix: int
    gateway: int = 0
    prefsrc: int = 0
    protocol: int = 0
    scope: int = 0
    metric: int = 0
    onlink: bool = False


class HostPort(msgspec.Struct, frozen=True, omit_defaults=True):
    """A port as it stood on the host before it moved: what DEL gives back.

    `conf` and `conf6` are its sysctls of net/ipv4/conf and net/ipv6/conf: a move sets both back to their defaults.
    """

    name: str
    ifindex: int
    mtu_bytes: int
    up: bool
    conf: dict[str, int]
    addresses: tuple[HostAddress, ...] = ()
    routes: tuple[HostRoute, ...] = ()
    conf6: dict[str, int] = {}
    vf: int = PORT_ITSELF
    """Number of the VF that moved, of port `pf`."""
    pf: str = ""


class Rdma(msgspec.Struct, frozen=True):
    """An RDMA device: its name, and how it gets into a pod (module rdma)."""

    name: str
    how: Literal["stays", "moves", "made", "remade"]


class Port(msgspec.Struct, frozen=True, omit_defaults=True):
    """One rail in a pod: the interface's name, MAC and MTU there, its addresses.

    `host` only for a port or VF that moved; `device` is what the kubelet calls what it gave.
    """

    rail: int
    name: str
    mac: str
    mtu_bytes: int
    addresses: tuple[Address, ...] = ()
    host: HostPort | None = None
    rdma: Rdma | None = None
    device: str = ""


class Attachment(msgspec.Struct, frozen=True):
    """All rails of one pod. `netns` and `inode` name its network namespace, `boot` the boot it belongs to."""

    container: str
    ifname: str
    network: str
    mode: str
    netns: str
    inode: int
    boot: str
    ports: tuple[Port, ...]
    pod: str = ""
    """NAMESPACE/NAME of a pod of Kubernetes."""

    @property
    def key(self) -> Key:
        """What the runtime calls it by."""
        return self.container, self.ifname

    @property
    def first_rail(self) -> int:
        """The lowest rail; no two attachments of one namespace share a rail."""
        return self.ports[0].rail

    def __str__(self) -> str:
        return self.pod or f"{self.container[:12]}/{self.ifname}"


@lru_cache(maxsize=4096)
def _addressed(written: str, gateway: str) -> AddressPlan:
    address, _, prefix = written.partition("/")
    version, number = parse_address(address)
    return AddressPlan(version, number, int(prefix), parse_address(gateway)[1] if gateway else 0, 0, 0)


def address_of(own: AddressPlan) -> Address:
    """What is recorded of an address of the plan."""
    return Address(str(own), format_address(own.version, own.gateway) if own.gateway else "")


def mac_of(own: tuple[AddressPlan, ...], key: Key, rail: int) -> str:
    """The MAC address of a macvlan: a function of its address.

    The kernel brings up no second macvlan with the same MAC on a port (EADDRINUSE, macvlan_open() in
    drivers/net/macvlan.c). So an address cannot be held twice on a node whatever a journal says or lacks, and the next
    holder of an address is found by neighbours that still know the last one.
    """
    if own:
        version, number = own[0].version, own[0].address & 0xFFFF_FFFF
    else:
        version, number = V4, zlib.crc32(f"{key}{rail}".encode())
    return ":".join((_MAC_PREFIX[version], *(f"{number >> shift & 255:02x}" for shift in (24, 16, 8, 0))))
