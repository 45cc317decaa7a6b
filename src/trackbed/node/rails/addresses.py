"""The choice of a pod's addresses: arithmetic over the addresses that are held.

The plan gives a node a block of addresses on each rail. The search starts behind the address that was handed out last
and wraps around, so a released address is reused last.
"""

from collections.abc import Set as AbstractSet

from trackbed.fabric.plan.plan import AddressPlan

Taken = AbstractSet[tuple[int, int]]
"""Addresses that are not free, as (IP version, address)."""


def find_free_addresses(
    block: tuple[AddressPlan, ...], taken: Taken, last: int | None
) -> tuple[AddressPlan, ...] | None:
    """Return the next free addresses of a block, one for each IP version, or None when all are taken.

    `last` is the address of the first version that was handed out last. The addresses of all versions have the same
    offset in their blocks. A rail without planned addresses gives `()`.
    """
    if not block:
        return ()
    count = min(version.pods_count for version in block)
    start = 0 if last is None else last - block[0].pods_first + 1
    for step in range(count):
        offset = (start + step) % count
        addresses = tuple(version.with_address(version.pods_first + offset) for version in block)
        if not any((address.version, address.address) in taken for address in addresses):
            return addresses
    return None
