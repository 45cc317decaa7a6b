"""Python's collector of reference cycles, paused while many values are made."""

from __future__ import annotations

import gc
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_R = TypeVar("_R")


def without_collector(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Pause the collector while `function` runs.

    A plan of 100,000 ports has no cycle, and visiting all of it again and again would be half of the work. Its values
    join the oldest generation: the collector would visit them as soon as it goes on.
    """

    @wraps(function)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return function(*args, **kwargs)
        finally:
            if was_enabled:
                _promote()
                gc.enable()

    return run


def _promote() -> None:
    """Move all objects to the oldest generation, but keep frozen what a server has frozen."""
    if gc.get_freeze_count() == 0:
        gc.freeze()
        gc.unfreeze()
