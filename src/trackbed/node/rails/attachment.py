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
"""How a pod gets a rail: by a macvlan on the port, by a VF of the port, or by the port itself."""

PORT_ITSELF = -1
"""Used in place of a VF number for the port itself."""

_MAC_PREFIX = {4: "0e:7b", 6: "0e:7c"}
"""First two bytes of a derived MAC, by IP version: locally administered and unicast (IEEE 802, first byte)."""


class PodAddress(msgspec.Struct, frozen=True, omit_defaults=True):
    """An address of a pod with its prefix length, as text, and its gateway ("" if it has none)."""

    text: str
    gateway: str = ""

    @property
    def plan(self) -> AddressPlan:
        """The address as an AddressPlan."""
        return _parse_address_plan(self.text, self.gateway)


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


class PortIdentity(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the kernel reports of a device and no pod can choose: compare it before a device moves or gets a name.

    A pod chooses name, index, MAC and group of its interfaces. It chooses neither the device on a bus nor the
    network namespace of a peer.
    """

    kind: str = ""
    """Kind of a software interface, such as veth; empty for hardware."""
    parent_device: str = ""
    """Name of the device on its bus; the PCI address of a NIC."""
    permanent_mac: str = ""
    """MAC that the driver read from the hardware; empty for VFs, whose port may change it."""
    port_name: str = ""
    peer: int = 0
    """Index of the peer of a veth, or of the interface below; 0 for none."""
    peer_netns: int = -1
    """Id of the peer's network namespace in the host's one; -1 without a peer."""


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
    dscp_priorities: tuple[tuple[int, int], ...] = ()
    """Pairs (DSCP, priority) of its APP table. The kernel flushes the table with each move."""
    connection_class: int | None = None
    """Traffic class that rdma_cm gives connections over its RDMA device; None if unknown. A move resets it."""
    vf: int = PORT_ITSELF
    """Number of the moved VF of port `pf`, or PORT_ITSELF."""
    pf: str = ""
    identity: PortIdentity | None = None
    """None in records of earlier versions."""
    flags: int | None = None
    """Flags of the interface (IFF_*); None in records of earlier versions."""
    group: int = 0
    txqlen: int = 0
    alias: str = ""
    altnames: tuple[str, ...] = ()
    mode: int = 0
    packet_limits: tuple[int, ...] = ()
    """As in `trackbed.kernel.netlink.links.Link`; empty in records of earlier versions."""
    has_xdp: bool = False


class Rdma(msgspec.Struct, frozen=True, omit_defaults=True):
    """An RDMA device: its name on the host, and how it gets into a pod (see `trackbed.node.rails.rdma`)."""

    name: str
    how: Literal["stays", "moves", "made", "remade"]
    node_guid: str = ""
    """By which a hardware device is known in any namespace; empty: it has none, and the name counts."""
    index: int = -1
    """Index that the kernel gave the device, by which it is known before GUID and name; -1 if unknown."""


class PodPort(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rail in a pod: name, MAC, MTU and addresses of its interface.

    `host` is set for a port or VF that moved into the pod. `device` is the kubelet's id of the device, "" without a
    kubelet.
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
    """NAMESPACE/NAME of the Kubernetes pod, "" for a container without one."""

    @property
    def key(self) -> Key:
        """The key by which the runtime names the attachment."""
        return self.container, self.ifname

    @property
    def first_rail(self) -> int:
        """The lowest rail, which is unique to this attachment within its namespace."""
        return self.ports[0].rail

    def __str__(self) -> str:
        return self.pod or f"{self.container[:12]}/{self.ifname}"


@lru_cache(maxsize=4096)
def _parse_address_plan(address_and_prefix: str, gateway: str) -> AddressPlan:
    address, _, prefix = address_and_prefix.partition("/")
    version, number = parse_address(address)
    return AddressPlan(version, number, int(prefix), parse_address(gateway)[1] if gateway else 0, 0, 0)


def to_pod_address(address_plan: AddressPlan) -> PodAddress:
    """Return a planned address in the form that the journal records."""
    return PodAddress(
        str(address_plan), format_address(address_plan.version, address_plan.gateway) if address_plan.gateway else ""
    )


def derive_mac(addresses: tuple[AddressPlan, ...], key: Key, rail: int) -> str:
    """Return the MAC address of a macvlan, derived from its first IP address.

    The kernel refuses to bring up a second macvlan with the same MAC on a port (EADDRINUSE, macvlan_open() in
    drivers/net/macvlan.c). Therefore an address cannot be used twice on a node even if the journal is wrong or
    incomplete, and neighbours with a stale entry for an address reach the next pod that has it. Without addresses the
    MAC is derived from the key and the rail.
    """
    if addresses:
        version, number = addresses[0].version, addresses[0].address & 0xFFFF_FFFF
    else:
        version, number = V4, zlib.crc32(f"{key}{rail}".encode())
    return ":".join((_MAC_PREFIX[version], *(f"{number >> shift & 255:02x}" for shift in (24, 16, 8, 0))))
