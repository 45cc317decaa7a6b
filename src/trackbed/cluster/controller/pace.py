"""Limits on concurrent requests, and intervals between passes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus

MAX_REQUESTS = 32
"""Concurrent requests."""
RETRY_SECONDS = 5.0
"""Shortest time until a failed request is retried."""
IDLE_SECONDS = 60.0
"""Interval between passes while nothing changes; a deadline may have passed."""
STALE_STATUSES = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT})
"""Statuses of a refused write to an object that was changed or deleted; the next pass reads it again."""

Log = Callable[[str], None]


async def run_all(calls: Sequence[Callable[[], Awaitable[bool]]]) -> list[bool]:
    """Run the calls with bounded concurrency, started in order; return their results."""
    gate = asyncio.Semaphore(MAX_REQUESTS)

    async def run(call: Callable[[], Awaitable[bool]]) -> bool:
        async with gate:
            return await call()

    return await asyncio.gather(*(run(call) for call in calls))
