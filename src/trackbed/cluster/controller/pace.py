"""Limits on concurrent requests, and intervals between passes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import TypeVar

MAX_REQUESTS = 32
"""Largest number of concurrent requests."""
RETRY_SECONDS = 5.0
"""Shortest pause before a failed request is retried."""
IDLE_SECONDS = 60.0
"""Interval between passes while no object changes, since a deadline may have passed."""
STALE_STATUSES = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT})
"""HTTP statuses of a write to an object that was changed or deleted meanwhile; the next pass uses its new state."""

Log = Callable[[str], None]
"""Function that writes one line to the log."""
_T = TypeVar("_T")


async def run_all(calls: Sequence[Callable[[], Awaitable[_T]]]) -> list[_T]:
    """Run the calls with at most MAX_REQUESTS at once; return their results in order.

    If a call raises, the others are cancelled, and its exception is raised once they have ended.
    """
    gate = asyncio.Semaphore(MAX_REQUESTS)

    async def run(call: Callable[[], Awaitable[_T]]) -> _T:
        async with gate:
            return await call()

    tasks = [asyncio.create_task(run(call)) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
