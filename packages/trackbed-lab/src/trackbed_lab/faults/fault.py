"""What a fault is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from trackbed_lab.faults.target import FaultTarget


def _nothing_left(place: FaultTarget) -> None:
    """What settling does is enough."""


class LabFault(NamedTuple):
    """One fault: its id in the catalogue, how to make it, and what must be undone by hand before settling."""

    id: str
    inject: Callable[[FaultTarget], None]
    heal: Callable[[FaultTarget], None] = _nothing_left
