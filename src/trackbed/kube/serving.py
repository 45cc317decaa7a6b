"""A program that works until it is told to end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine


async def until_told(work: Coroutine[None, None, None]) -> None:
    """Do the work until SIGTERM or SIGINT comes; it is cancelled then, and given the time to clean up."""
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    tasks = {asyncio.create_task(work), asyncio.create_task(ended.wait())}
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    for one in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(one, Exception):
            raise one
