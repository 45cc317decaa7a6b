"""Netmasks of IPv4."""

from trackbed.fabric.model.ranges import BITS, V4, parse_address


def parse_netmask(netmask: str) -> int | None:
    """Return the prefix length of an IPv4 netmask; None if it is none."""
    try:
        ip_version, number = parse_address(netmask)
    except ValueError:
        return None
    prefix = number.bit_count()
    is_netmask = ip_version == V4 and number == ((1 << prefix) - 1) << (BITS[V4] - prefix)
    return prefix if is_netmask else None
