"""The attachment of a pod: one for each (container, interface) that a runtime names, with a port for each rail.

The journal records it, the kernel is compared with it, and the runtime's result is built from it. It is complete
without the plan, because the plan may have changed since the pod was attached.
"""

import zlib
from functools import lru_cache
from typing import Literal

import msgspec

from trackbed.fabric.model.ranges import V4, format_address, parse_address
from trackbed.fabric.plan.plan import AddressPlan

Key = tuple[str, str]
"""(CNI_CONTAINERID, CNI_IFNAME), which the CNI specification makes unique."""

MODES = ("macvlan", "sriov", "move")
"""How a pod gets a rail: by an interface on the port, a VF of the port, or the port itself."""

PORT_ITSELF = -1
"""Stands in place of a VF's number."""

_MAC_PREFIX = {4: "0e:7b", 6: "0e:7c"}
"""Locally administered, unicast (IEEE 802, second-lowest bit of the first byte)."""


class PodAddress(msgspec.Struct, frozen=True, omit_defaults=True):
    """An address with its prefix length, as text, and its gateway; "" for none."""

    text: str
    gateway: str = ""

    @property
    def addressed(self) -> AddressPlan:
        """The address in the plan's form."""
        return _parse_addressed(self.text, self.gateway)


class HostAddress(msgspec.Struct, frozen=True, omit_defaults=True):
    """An address of a port on the host, with the fields of trackbed.kernel.netlink.addresses."""

    family: int
    address: int
    prefix: int
    scope: int = 0
    flags: int = 0


class HostRoute(msgspec.Struct, frozen=True, omit_defaults=True):
    """A route through a port on the host, with the fields of trackbed.kernel.netlink.routes."""

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
    """The state of a port on the host before it moved into a pod; DEL restores it.

    `conf` and `conf6` are its sysctls of net/ipv4/conf and net/ipv6/conf. A move resets both to their defaults.
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
    """An RDMA device: its name, and how it gets into a pod (see `trackbed.node.rails.rdma`)."""

    name: str
    how: Literal["stays", "moves", "made", "remade"]


class PodPort(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rail in a pod: name, MAC, MTU and addresses of its interface.

    `host` is set for a port or VF that moved. `device` is the kubelet's id of the device, "" without a kubelet.
    """

    rail: int
    name: str
    mac: str
    mtu_bytes: int
    addresses: tuple[PodAddress, ...] = ()
    host: HostPort | None = None
    rdma: Rdma | None = None
    device: str = ""


class Attachment(msgspec.Struct, frozen=True):
    """All rails of one pod. `netns` and `inode` identify its network namespace, `boot` the boot it belongs to."""

    container: str
    ifname: str
    network: str
    mode: str
    netns: str
    inode: int
    boot: str
    ports: tuple[PodPort, ...]
    pod: str = ""
    """NAMESPACE/NAME of a pod of Kubernetes."""

    @property
    def key(self) -> Key:
        """The runtime's key of the attachment."""
        return self.container, self.ifname

    @property
    def first_rail(self) -> int:
        """The lowest rail; no two attachments of one namespace share a rail."""
        return self.ports[0].rail

    def __str__(self) -> str:
        return self.pod or f"{self.container[:12]}/{self.ifname}"


@lru_cache(maxsize=4096)
def _parse_addressed(address_and_prefix: str, gateway: str) -> AddressPlan:
    address, _, prefix = address_and_prefix.partition("/")
    version, number = parse_address(address)
    return AddressPlan(version, number, int(prefix), parse_address(gateway)[1] if gateway else 0, 0, 0)


def to_pod_address(addressed: AddressPlan) -> PodAddress:
    """Return the record of a planned address."""
    return PodAddress(str(addressed), format_address(addressed.version, addressed.gateway) if addressed.gateway else "")


def derive_mac(addresses: tuple[AddressPlan, ...], key: Key, rail: int) -> str:
    """Return the MAC address of a macvlan, derived from its first IP address.

    The kernel refuses to bring up a second macvlan with the same MAC on a port (EADDRINUSE, macvlan_open() in
    drivers/net/macvlan.c). So an address cannot be held twice on a node even if the journal is wrong or incomplete, and
    neighbours with a stale entry for an address reach its next holder. Without addresses the MAC is derived from the
    key and the rail.
    """
    if addresses:
        version, number = addresses[0].version, addresses[0].address & 0xFFFF_FFFF
    else:
        version, number = V4, zlib.crc32(f"{key}{rail}".encode())
    return ":".join((_MAC_PREFIX[version], *(f"{number >> shift & 255:02x}" for shift in (24, 16, 8, 0))))
