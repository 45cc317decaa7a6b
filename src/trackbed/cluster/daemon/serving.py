"""Programs that work until they are told to end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


async def until_told(work: Coroutine[Any, Any, object]) -> None:
    """Do the work until SIGTERM or SIGINT comes; it is cancelled then, and given the time to clean up."""
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await until_one_ends(work, ended.wait())


async def until_one_ends(*work: Coroutine[Any, Any, object]) -> None:
    """Do all of it side by side until one ends; the others are cancelled. Raises what one of them ended with."""
    tasks = {asyncio.create_task(one) for one in work}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for one in ends:
        if isinstance(one, Exception):
            raise one
