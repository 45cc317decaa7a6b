"""What a fault is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from trackbed_lab.faults.place import Place


def _nothing_left(place: Place) -> None:
    """What settling does is enough."""


class Fault(NamedTuple):
    """One fault: its id in the catalogue, how to make it, and what must be undone by hand before settling."""

    id: str
    inject: Callable[[Place], None]
    heal: Callable[[Place], None] = _nothing_left
