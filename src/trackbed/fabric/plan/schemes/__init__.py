"""Addressing schemes, one module each: how a rail's range is divided among nodes.

Each module has a function `build_layout(addressing, rail_spec, rail_range, nodes_per_unit)`. It takes the Fabric's
addressing, the specification and the range of a rail, and returns a RangeLayout.
"""

from typing import Any, Final, Protocol

from trackbed.fabric.model.rails import RailSpec
from trackbed.fabric.model.ranges import Range
from trackbed.fabric.plan.schemes import node_subnet, point_to_point, shared_subnet
from trackbed.fabric.plan.schemes.layout import RangeLayout


class Scheme(Protocol):
    """Interface of a module that implements a scheme."""

    def build_layout(self, addressing: Any, rail_spec: RailSpec, rail_range: Range, nodes_per_unit: int) -> RangeLayout:  # noqa: ANN401 - each scheme has its own model
        """Divide the range of one rail among nodes."""


SCHEMES: Final[dict[str, Scheme]] = {
    "shared-subnet": shared_subnet,
    "node-subnet": node_subnet,
    "point-to-point": point_to_point,
}
"""Modules of the schemes, by their names in the Fabric."""
