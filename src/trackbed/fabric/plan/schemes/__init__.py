"""Addressing schemes, one module each: how a rail's range is divided among nodes.

Each module has a function `build_layout(addressing, entry, rail_range, nodes_per_unit)`. It takes the scheme's section
of the Fabric, the rail's entry and the rail's range, and returns a RangeLayout.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from trackbed.fabric.model.rails import RailSpec
from trackbed.fabric.model.ranges import Range
from trackbed.fabric.plan.schemes import node_subnet, point_to_point, shared_subnet
from trackbed.fabric.plan.schemes.layout import RangeLayout


class Scheme(Protocol):
    """Interface of a scheme's module."""

    def build_layout(self, addressing: Any, entry: RailSpec, rail_range: Range, nodes_per_unit: int) -> RangeLayout:  # noqa: ANN401 - each its own
        """Divide the range of one rail."""


SCHEMES: Final[dict[str, Scheme]] = {
    "shared-subnet": shared_subnet,
    "node-subnet": node_subnet,
    "point-to-point": point_to_point,
}
"""The registry of schemes, by their names in the Fabric."""
