"""Addressing schemes: what happens inside a rail's range. One module each; a scheme knows nothing of the others.

A module offers `layout(addressing, entry, cut, nodes_per_unit)`: given the scheme's part of the Fabric, the rail's own
entry and the rail's range, it answers with a Layout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from trackbed.fabric.model.rails import Rail
    from trackbed.fabric.model.ranges import Range
    from trackbed.fabric.plan.plan import Addressed


class Layout(NamedTuple):
    """How a rail's range is dealt out."""

    slots: int
    """How many nodes fit."""
    at: Callable[[int], Addressed]
    """Addressing of the node with this slot; strictly increasing in the slot. Only for 0 <= slot < slots."""


class Scheme(Protocol):
    """What a scheme's module offers."""

    def layout(self, addressing: Any, entry: Rail, cut: Range, nodes_per_unit: int) -> Layout:  # noqa: ANN401 - each its own
        """Deal out the range `cut` of one rail."""


def scheme(name: str) -> Scheme:
    """The scheme of that name."""
    from trackbed.fabric.plan.schemes import node_subnet, point_to_point, shared_subnet  # noqa: PLC0415 - they import Layout

    return {"shared-subnet": shared_subnet, "node-subnet": node_subnet, "point-to-point": point_to_point}[name]
