"""Inputs about switches that a plan does not have: front-panel ports, uplinks, AS numbers and VLANs.

    ports      in order: the host at position n on its leaf has the n-th port
    uplinks    the ports towards the spines
    uplinks4   IPv4 range for numbered BGP; without it the uplinks are unnumbered (RFC 8950 next hops)

A host's position is its slot within its unit, or within the fabric if a leaf serves several units. So adding or
removing a host leaves all others on their ports. Uplink k of leaf n has the /31 number n * uplinks + k, in which the
leaf has the even address and the spine the odd one.
"""

import re
from collections.abc import Iterable, Iterator

import msgspec

from trackbed.fabric.model.cluster import OtherRanges
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.model.ranges import V4, Range
from trackbed.fabric.plan.plan import RailPlan

FIRST_ASN, LAST_ASN = 4_200_000_000, 4_294_967_294
"""32-bit AS numbers for private use (RFC 6996)."""
FIRST_VLAN, LAST_VLAN = 2, 4094
"""VLAN numbers: 4095 is reserved (IEEE 802.1Q), 1 is the default VLAN of a bridge, which sonic-vlan.yang excludes."""
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
"""Names that are valid as a file name, as a host name and as a word of a command."""


class Wiring(msgspec.Struct, frozen=True):
    """The cabling and numbering of leaves."""

    ports: tuple[str, ...]
    uplinks: tuple[str, ...] = ()
    uplinks4: Range | None = None
    first_asn: int = FIRST_ASN
    """Leaf number n has AS first_asn + n; a leaf's number is unit * rails + rail."""
    first_vlan: int = 100
    """Bridged rail r has VLAN first_vlan + r."""
    gateways: bool = True
    """Whether the gateway of a bridged rail is an address of its leaf; False if a separate router has it."""


def check_wiring(wiring: Wiring, rail_count: int, leaf_count: int) -> Iterator[Problem]:
    """Yield the problems of a wiring for this number of rails and leaves."""
    yield from _check_port_names(wiring)
    if not FIRST_ASN <= wiring.first_asn <= LAST_ASN - leaf_count + 1:
        needed = f"{leaf_count} leaves need AS numbers from {FIRST_ASN} to {LAST_ASN}"
        yield Problem("bad-asn", f"{needed}; they cannot start at {wiring.first_asn}")
    if not FIRST_VLAN <= wiring.first_vlan <= LAST_VLAN - rail_count + 1:
        needed = f"{rail_count} rails need VLANs from {FIRST_VLAN} to {LAST_VLAN}"
        yield Problem("bad-vlan", f"{needed}; they cannot start at {wiring.first_vlan}")
    if wiring.uplinks4:
        yield from _check_uplink_range(wiring, wiring.uplinks4, leaf_count)


def _check_port_names(wiring: Wiring) -> Iterator[Problem]:
    for name in (*wiring.ports, *wiring.uplinks):
        if not NAME_PATTERN.fullmatch(name):
            yield Problem("bad-port", f"{name!r} is not a port name; write for example swp1 or Ethernet0")
            return
    if len(set(wiring.ports)) < len(wiring.ports) or len(set(wiring.uplinks)) < len(wiring.uplinks):
        yield Problem("doubled-port", "a port is named twice; each has one host or one spine")


def _check_uplink_range(wiring: Wiring, uplink_range: Range, leaf_count: int) -> Iterator[Problem]:
    count, needed = len(wiring.uplinks), 2 * leaf_count * len(wiring.uplinks)
    if uplink_range.version != V4:
        message = f"{uplink_range} is IPv6; numbered uplinks take IPv4, IPv6 needs unnumbered ones"
        yield Problem("bad-uplink-range", message)
    elif not wiring.uplinks:
        message = f"{uplink_range} is for uplinks, but no uplinks are named; name them with --uplinks"
        yield Problem("no-uplinks", message)
    elif needed > uplink_range.size:
        size = uplink_range.size
        message = f"{uplink_range} has {size} addresses; {leaf_count} leaves with {count} uplinks need {needed}"
        yield Problem("uplink-range-full", message)


def check_uplinks_and_rails(wiring: Wiring, rails: Iterable[RailPlan]) -> Iterator[Problem]:
    """Yield a problem for each rail that has an address of the uplinks' range."""
    for rail in rails:
        if wiring.uplinks4 and rail.v4 and wiring.uplinks4.overlaps(rail.v4):
            message = (
                f"uplink range {wiring.uplinks4} overlaps {rail.v4} of rail {rail.rail}; name a free --uplink-range"
            )
            yield Problem("uplink-range-overlap", message)


def check_uplinks_and_other_ranges(wiring: Wiring, other_ranges: OtherRanges) -> Iterator[Problem]:
    """Yield a problem for each of the Fabric's other ranges that has an address of the uplinks' range."""
    for field in ("pods", "services", "nodes", "docker"):
        for index, other in enumerate(getattr(other_ranges, field)):
            if wiring.uplinks4 and wiring.uplinks4.overlaps(other):
                message = f"uplink range {wiring.uplinks4} overlaps {other} of otherRanges.{field}; "
                message += "name a free --uplink-range"
                if field == "docker":
                    message += ", or write otherRanges: {docker: []} where no docker runs"
                yield Problem("uplink-range-overlap", message, ("spec", "otherRanges", field, index))
