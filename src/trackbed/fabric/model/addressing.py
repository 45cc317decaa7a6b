"""The four addressing schemes.

All of them divide a supernet into one range for each rail; the scheme defines the use of a rail's range.

    addressing:
      scheme: shared-subnet        # a rail's range is one subnet
      ipv4: 10.0.0.0/13            # 8 rails: 10.0.0.0/16 .. 10.7.0.0/16

    addressing:
      scheme: node-subnet          # a rail's range is divided into a subnet for each node
      ipv4: 10.0.0.0/13
      ipv4NodePrefix: 27

    addressing:
      scheme: point-to-point       # a rail's range is divided into a /31 for each node (RFC 3021)
      layout: spectrum-x-2tier

    addressing:
      scheme: point-to-point       # a /31 and an IPv6 /64 for each node and rail
      ipv4: 10.0.0.0/13
      ipv6: fd02::/32
      ipv6RailPrefix: 40
      ipv6NodePrefix: 64

    addressing: {scheme: none}
"""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from trackbed.fabric.bounds import POD_ADDRESSES
from trackbed.fabric.model.model import FabricModel, RangeV4, RangeV6
from trackbed.fabric.model.ranges import Range

SPECTRUM_X_SUPERNET = Range(4, 172 << 24 | 16 << 16, 12)
"""172.16.0.0/12: rail r has 172.(16+2r).0.0/15, unit u and host h have 172.(16+2r).u.(2h)/31."""
SPECTRUM_X_RAIL_PREFIX = 15


class _Supernet(FabricModel):
    """Fields of the three schemes with addresses."""

    ipv4: RangeV4 | None = None
    """IPv4 supernet of all rails. Optional if every rail has its own range."""
    ipv4_rail_prefix: int | None = Field(default=None, ge=1, le=31)
    """Prefix length of a rail's range. Default: the supernet divided into the smallest power of two that holds all
    rails.
    """
    ipv6: RangeV6 | None = None
    """IPv6 supernet of all rails, planned beside IPv4."""
    ipv6_rail_prefix: int | None = Field(default=None, ge=1, le=127)
    """Prefix length of a rail's IPv6 range. Default: as for IPv4; /64 in scheme shared-subnet."""


class SharedSubnet(_Supernet):
    """A flat rail: one subnet for each rail, shared by ports and pods of all nodes.

    Example:
        scheme: shared-subnet
        ipv4: 10.0.0.0/13
        ipv4RailPrefix: 16
        ipv6: fd00:10::/40
        ipv6RailPrefix: 64
        podAddresses: 31
        gateway: first
    """

    scheme: Literal["shared-subnet"]
    """One subnet for each rail."""
    pod_addresses: int = Field(default=15, ge=POD_ADDRESSES.low, le=POD_ADDRESSES.high)
    """Addresses reserved for pods on each node and rail. 15 and the port's own make a block of 16."""
    gateway: Literal["none", "first", "last"] = "none"
    """Usable address of a rail's subnet that is its gateway; none for a rail without router."""


class NodeSubnet(_Supernet):
    """One subnet for each node and rail: first usable address the gateway, second the port, the others for pods.

    Example:
        scheme: node-subnet
        ipv4: 10.0.0.0/13
        ipv4RailPrefix: 16
        ipv4NodePrefix: 26
        ipv6: fd00:10::/40
        ipv6RailPrefix: 48
        ipv6NodePrefix: 64
        podAddresses: 32
    """

    scheme: Literal["node-subnet"]
    """One subnet for each node and rail."""
    ipv4_node_prefix: int = Field(default=27, ge=8, le=29)
    """Prefix length of a node's IPv4 subnet on a rail; /27 leaves 28 addresses for pods."""
    ipv6_node_prefix: int = Field(default=64, ge=16, le=124)
    """Prefix length of a node's IPv6 subnet on a rail."""
    pod_addresses: int | None = Field(default=None, ge=POD_ADDRESSES.low, le=POD_ADDRESSES.high)
    """Addresses for pods on each node and rail. Default: all remaining addresses of the subnet, 4096 at most."""


class PointToPoint(_Supernet):
    """Routed to the host: a /31 (IPv6: /127) for each node and rail; even address for the host, odd for the leaf.

    Example:
        scheme: point-to-point
        layout: dense
        ipv4: 10.0.0.0/13
        ipv4RailPrefix: 16
        ipv6: fd00:10::/32
        ipv6RailPrefix: 40
        ipv6NodePrefix: 64
        podAddresses: 1
    """

    scheme: Literal["point-to-point"]
    """A /31 for each node and rail (RFC 3021; IPv6 /127, RFC 6164)."""
    layout: Literal["dense", "spectrum-x-2tier"] = "dense"
    """dense: consecutive /31s. spectrum-x-2tier: 172.(16+2*rail).unit.(2*host), rail range /15."""
    ipv6_node_prefix: int = Field(default=127, ge=64, le=127)
    """Prefix length of a node's IPv6 subnet on a rail. Shorter than 127, for example 64: the host has ::1 of the
    subnet, the leaf ::2.
    """
    pod_addresses: int = Field(default=1, ge=0, le=1)
    """A /31 has one address besides the leaf's: 1 assigns it to the pod that the port moves into."""

    @model_validator(mode="before")
    @classmethod
    def _add_spectrum_x_ranges(cls, value: object) -> object:
        if not isinstance(value, dict) or value.get("layout") != "spectrum-x-2tier":
            return value
        return {"ipv4": str(SPECTRUM_X_SUPERNET), "ipv4RailPrefix": SPECTRUM_X_RAIL_PREFIX} | value


class NoAddresses(FabricModel):
    """No addresses are planned: InfiniBand without IPoIB, clouds.

    Example:
        scheme: none
    """

    scheme: Literal["none"]
    """No addresses."""


Addressing = Annotated[SharedSubnet | NodeSubnet | PointToPoint | NoAddresses, Field(discriminator="scheme")]
