"""What a plan does not say about switches: which front-panel ports there are, where the spines are, which numbers.

    ports      in order: the host at position n of its leaf is on the n-th
    uplinks    the ports towards the spines
    uplinks4   IPv4 range for numbered BGP; without it the uplinks are unnumbered (RFC 8950 next hops)

Position: the host's slot within its unit (within the fabric where a leaf serves several units), so a host that comes or
goes moves nobody to another port. Uplink k of leaf n has the /31 number n * uplinks + k: even the leaf, odd the spine.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from trackbed.fabric.model.problems import Problem
from trackbed.fabric.model.ranges import V4, Range

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST_ASN, LAST_ASN = 4_200_000_000, 4_294_967_294
"""32-bit AS numbers for private use (RFC 6996)."""
LAST_VLAN = 4094
"""IEEE 802.1Q: 4095 is reserved."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
"""Names that are safe as a file's name, a host name and a word of a command."""


class Wiring(msgspec.Struct, frozen=True):
    """How leaves are cabled and numbered."""

    ports: tuple[str, ...]
    uplinks: tuple[str, ...] = ()
    uplinks4: Range | None = None
    first_asn: int = FIRST_ASN
    """Leaf number n is AS first_asn + n; its number is unit * rails + rail."""
    first_vlan: int = 100
    """Bridged rail r is VLAN first_vlan + r."""
    gateways: bool = True
    """Whether the gateway of a bridged rail is an address of its leaf; False where routers of their own have it."""


def wiring_problems(wiring: Wiring, rails: int, leaves: int) -> Iterator[Problem]:
    """What is wrong with a wiring for so many rails and leaf numbers."""
    yield from _names(wiring)
    if not FIRST_ASN <= wiring.first_asn <= LAST_ASN - leaves + 1:
        message = f"{leaves} leaves need AS numbers from {FIRST_ASN} to {LAST_ASN}; {wiring.first_asn} is no start"
        yield Problem("bad-asn", message)
    if not 1 <= wiring.first_vlan <= LAST_VLAN - rails + 1:
        message = f"{rails} rails need VLANs from 1 to {LAST_VLAN}; {wiring.first_vlan} is no start"
        yield Problem("bad-vlan", message)
    if wiring.uplinks4:
        yield from _numbered(wiring, wiring.uplinks4, leaves)


def _names(wiring: Wiring) -> Iterator[Problem]:
    for name in (*wiring.ports, *wiring.uplinks):
        if not NAME.fullmatch(name):
            yield Problem("bad-port", f"{name!r} is no port name; write for example swp1 or Ethernet0")
            return
    if len(set(wiring.ports)) < len(wiring.ports) or len(set(wiring.uplinks)) < len(wiring.uplinks):
        yield Problem("doubled-port", "a port is named twice; each has one host or one spine")


def _numbered(wiring: Wiring, cut: Range, leaves: int) -> Iterator[Problem]:
    need = 2 * leaves * len(wiring.uplinks)
    if cut.version != V4:
        yield Problem("bad-uplink-range", f"{cut} is IPv6; numbered uplinks take IPv4, IPv6 needs unnumbered ones")
    elif not wiring.uplinks:
        yield Problem("no-uplinks", f"{cut} is for uplinks, but no uplinks are named; name them with --uplinks")
    elif need > cut.size:
        message = f"{cut} has {cut.size} addresses; {leaves} leaves with {len(wiring.uplinks)} uplinks need {need}"
        yield Problem("uplink-range-full", message)
