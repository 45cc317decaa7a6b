"""A limit on concurrent requests."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from trackbed.cluster.api.errors import ApiRefusedError

MAX_REQUESTS = 32
"""Largest number of concurrent requests."""
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


async def run_each(calls: Sequence[Callable[[], Awaitable[object]]]) -> None:
    """Run the calls as `run_all` does, but let one that the server refuses stop no other.

    Raises the first ApiRefusedError once all have ended; any other exception cancels the others.
    """
    refusals = await run_all([partial(_catch_refusal, call) for call in calls])
    for refusal in refusals:
        if refusal:
            raise refusal


async def _catch_refusal(call: Callable[[], Awaitable[object]]) -> ApiRefusedError | None:
    try:
        await call()
    except ApiRefusedError as refusal:
        return refusal
    return None
