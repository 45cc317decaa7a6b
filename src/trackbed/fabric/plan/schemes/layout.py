"""Division of a rail's range among nodes."""

from collections.abc import Callable
from typing import NamedTuple

from trackbed.fabric.plan.plan import AddressPlan


class RangeLayout(NamedTuple):
    """Division of a rail's range among nodes."""

    slots: int
    """Nodes that fit into the range."""
    compute_address: Callable[[int], AddressPlan]
    """Addressing of the node with a slot, 0 <= slot < slots; strictly increasing in the slot."""
