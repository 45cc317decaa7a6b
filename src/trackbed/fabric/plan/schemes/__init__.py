"""Addressing schemes, one module each: how a rail's range is divided among nodes.

Each module has a function `build_layout(addressing, entry, rail_range, nodes_per_unit)`. It takes the scheme's section
of the Fabric, the rail's entry and the rail's range, and returns a RangeLayout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from trackbed.fabric.model.rails import RailSpec
    from trackbed.fabric.model.ranges import Range
    from trackbed.fabric.plan.plan import Addressed


class RangeLayout(NamedTuple):
    """Division of a rail's range among nodes."""

    slots: int
    """Nodes that fit into the range."""
    compute_address: Callable[[int], Addressed]
    """Addressing of the node with a slot, 0 <= slot < slots; strictly increasing in the slot."""


class Scheme(Protocol):
    """Interface of a scheme's module."""

    def build_layout(self, addressing: Any, entry: RailSpec, rail_range: Range, nodes_per_unit: int) -> RangeLayout:  # noqa: ANN401 - each its own
        """Divide the range of one rail."""


def load_scheme(name: str) -> Scheme:
    """Return the module of a scheme."""
    from trackbed.fabric.plan.schemes import node_subnet, point_to_point, shared_subnet  # noqa: PLC0415 - they import Layout

    return {"shared-subnet": shared_subnet, "node-subnet": node_subnet, "point-to-point": point_to_point}[name]
