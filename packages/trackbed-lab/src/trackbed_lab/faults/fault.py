"""A fault of the lab: its id and the functions that inject and heal it."""

from collections.abc import Callable
from typing import NamedTuple

from trackbed_lab.faults.target import FaultTarget


def _do_nothing(target: FaultTarget) -> None:
    """Do nothing: applying the plan again heals the fault."""


class LabFault(NamedTuple):
    """A fault: its id in the catalogue, how to inject it, and what to undo before the plan is applied again."""

    id: str
    inject: Callable[[FaultTarget], None]
    heal: Callable[[FaultTarget], None] = _do_nothing
