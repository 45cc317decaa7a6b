"""Slots of nodes, as their RailNodes hold them."""

from collections.abc import Iterable

import msgspec

from trackbed.cluster.api.metadata import ObjectMetadata


class _Slot(msgspec.Struct, frozen=True):
    """The spec of a RailNode: Fabric and slot."""

    fabric: str = ""
    slot: int | None = None


class SlottedRailNode(msgspec.Struct, frozen=True):
    """A RailNode, reduced to its slot."""

    metadata: ObjectMetadata
    spec: _Slot = _Slot()


def group_slots(railnodes: Iterable[SlottedRailNode]) -> dict[str, dict[str, int]]:
    """Return Fabric -> node -> slot."""
    slots: dict[str, dict[str, int]] = {}
    for item in railnodes:
        if item.spec.slot is not None:
            slots.setdefault(item.spec.fabric, {})[item.metadata.name] = item.spec.slot
    return slots
