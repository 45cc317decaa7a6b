"""The one way in which tests wait for something that another thread, process, server or kernel does."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

_T = TypeVar("_T")

PATIENCE_SECONDS = 120.0
"""Far longer than any wait on a quiet machine: a starved one makes tests slow, never red."""

_PAUSE_SECONDS = 0.05


def wait_until(probe: Callable[[], _T], event: str | Callable[[], str], seconds: float = PATIENCE_SECONDS) -> _T:
    """Call `probe` every 50 ms until it returns something true, and return that.

    Raises AssertionError after `seconds` with `event`, a sentence of what should happen, or a function that says how
    far it came.
    """
    deadline = time.monotonic() + seconds
    while not (result := probe()):
        _check_deadline(deadline, event, seconds)
        time.sleep(_PAUSE_SECONDS)
    return result


async def wait_for(
    probe: Callable[[], Awaitable[_T]], event: str | Callable[[], str], seconds: float = PATIENCE_SECONDS
) -> _T:
    """Await `probe` every 50 ms until it returns something true, and return that; otherwise as `wait_until`."""
    deadline = time.monotonic() + seconds
    while not (result := await probe()):
        _check_deadline(deadline, event, seconds)
        await asyncio.sleep(_PAUSE_SECONDS)
    return result


def _check_deadline(deadline: float, event: str | Callable[[], str], seconds: float) -> None:
    if time.monotonic() > deadline:
        raise AssertionError(f"not within {seconds:.0f} s: {event if isinstance(event, str) else event()}")
