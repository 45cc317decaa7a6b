"""Addresses of Spectrum-X: what NVIDIA's reference configuration (RCP) and l8k give to each host port.

The octets of a host in IPv4, a /31 with the leaf on the odd address; `rail_bits` are all of the rail's, plane's first:

    2-tier            FIRST . 16 | rail << 1          . unit              . host << 1      rail /15, all /12
    2-tier, planes    FIRST . 16 | plane << 2 | r>>2  . (r & 3) << 6 | u  . host << 1      rail /18, all /14
    3-tier            FIRST . rail << 5 | pod         . unit              . host << 1      rail /11, all /8
    3-tier, planes    FIRST . p << 6 | r << 3 | d>>2  . (d & 3) << 6 | u  . host << 1      rail /13, all /10

Of a wider subnet, which a patch of RCP makes, the leaf has the first address and the host the second. Source:
_calculate_host_fourth_octet in patches/ipv4am.py of blik616287/rcp-cidr-patch at 3b294df (2026-01-20); before it, the
host had the subnet's own address, as in a /31.

IPv6: fd02:00PP:RRDD:UUHH::1/64, the leaf at ::2; rail /40, all /32, with planes /24. Source: allocateIPv4HostLeaf and
allocateIPv6HostLeaf in pkg/networkoperatorplugin/spectrumx/addressing.go of k8s-launch-kit, 2026.
"""

from dataclasses import dataclass
from typing import NamedTuple

from trackbed.fabric.importers.interface import Interface, StaticAddress, StaticRoute, apply_netmask
from trackbed.fabric.model.problems import Place
from trackbed.fabric.model.ranges import V4, V6

MAX_RAIL, MAX_PLANE = 7, 3
TIERS = ("2-tier", "3-tier")


class Position(NamedTuple):
    """A host port in the topology, all counted from 0."""

    rail: int
    unit: int
    host: int
    pod: int = 0
    plane: int = 0


@dataclass(frozen=True, slots=True)
class SpectrumXScheme:
    """The addressing of a site."""

    is_3_tier: bool = False
    has_planes: bool = False
    first_octet: int = 172
    prefix: int = 31
    """Prefix length of a port: 31, or 29 or 30, where the leaf has the first address and the host the second."""
    ip_version: int = V4


class PortAddress(NamedTuple):
    """The address of a port, its leaf's, and the prefix lengths of the rail and of all rails."""

    version: int
    number: int
    prefix: int
    leaf: int
    rail_prefix: int
    all_prefix: int


def compute_address(scheme: SpectrumXScheme, position: Position) -> PortAddress:
    """Return the address of a port. Raises ValueError if the position exceeds the scheme's bits."""
    if scheme.ip_version == V6:
        return _compute_ipv6(scheme, position)
    block = 1 << (32 - scheme.prefix)
    limits = {
        "rail": (position.rail, MAX_RAIL),
        "plane": (position.plane, MAX_PLANE),
        "unit": (position.unit, 255 if scheme.is_3_tier and not scheme.has_planes else 63),
        "pod": (position.pod, 31 if scheme.is_3_tier else 0),
        "host": (position.host, 256 // block - 1),
        "first octet": (scheme.first_octet, 223),
    }
    for name, (value, limit) in limits.items():
        if not 0 <= value <= limit:
            message = f"{name} {value} exceeds {limit}, the largest that Spectrum-X addresses"
            raise ValueError(message)
    second, third, rail_prefix, all_prefix = _compute_octets(scheme, position)
    start = (scheme.first_octet << 24) | (second << 16) | (third << 8) | position.host * block
    number = start if scheme.prefix == 31 else start + 2  # noqa: PLR2004 - RFC 3021
    return PortAddress(V4, number, scheme.prefix, start + 1, rail_prefix, all_prefix)


def _compute_octets(scheme: SpectrumXScheme, position: Position) -> tuple[int, int, int, int]:
    """Return the second and third octet, and the prefix lengths of the rail and of all rails."""
    rail, unit, _, pod, plane = position
    if scheme.is_3_tier and scheme.has_planes:
        return plane << 6 | rail << 3 | pod >> 2, (pod & 3) << 6 | unit, 13, 10
    if scheme.is_3_tier:
        return rail << 5 | pod, unit, 11, 8
    if scheme.has_planes:
        return 16 | plane << 2 | rail >> 2, (rail & 3) << 6 | unit, 18, 14
    return 16 | rail << 1, unit, 15, 12


def _compute_ipv6(scheme: SpectrumXScheme, position: Position) -> PortAddress:
    rail, unit, host, pod, plane = position
    if any(not 0 <= value <= 255 for value in position):  # noqa: PLR2004 - eight bits for each
        message = f"{position} has a number above 255, the largest that Spectrum-X addresses"
        raise ValueError(message)
    high = 0xFD02 << 48 | plane << 32 | rail << 24 | pod << 16 | unit << 8 | host
    return PortAddress(V6, high << 64 | 1, 64, high << 64 | 2, 40, 24 if scheme.has_planes else 32)


def build_interface(host: str, name: str, address: PortAddress, place: Place, mtu_bytes: int) -> Interface:
    """Return the port of a host with its address, and its routes to the rail and to all rails."""
    routes = tuple(
        StaticRoute(apply_netmask(address.version, address.number, prefix), address.leaf, True, place)  # noqa: FBT003 - in the main table
        for prefix in (address.rail_prefix, address.all_prefix)
    )
    return Interface(
        host=host,
        name=name,
        mac=None,
        mtu_bytes=mtu_bytes,
        mtu_place=place,
        addresses=(StaticAddress(address.version, address.number, address.prefix, place),),
        routes=routes,
        dhcp=False,
        place=place,
    )
