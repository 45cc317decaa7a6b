"""Which address of a rail's block the next pod gets: pure arithmetic over what is held.

The plan gives a node a block on each rail. Search begins behind the address handed out last and goes round, so an
address that has just been given back is the last one to be used again.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from trackbed.fabric.plan.plan import AddressPlan

Taken = AbstractSet[tuple[int, int]]
"""Addresses that are not free, as (IP version, address)."""


def next_free(block: tuple[AddressPlan, ...], taken: Taken, last: int | None) -> tuple[AddressPlan, ...] | None:
    """The addresses at the next free place of a block, one for each IP version; None when all are taken.

    `last` is the first version's address that was handed out last. A place is the same distance into each version's
    block. A rail without planned addresses gives `()`.
    """
    if not block:
        return ()
    count = min(own.pods_count for own in block)
    after = 0 if last is None else last - block[0].pods_first + 1
    places = ((after + step) % count for step in range(count))
    at = (tuple(own.with_address(own.pods_first + place) for own in block) for place in places)
    return next((chosen for chosen in at if not any((own.version, own.address) in taken for own in chosen)), None)
