"""Concurrent coroutines that end together, or on a signal."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


async def run_until_signal(coroutine: Coroutine[Any, Any, object]) -> None:
    """Run a coroutine until it ends, or until SIGTERM or SIGINT cancels it. Raises its exception."""
    stopped = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stopped.set)
    await run_until_first_ends(coroutine, stopped.wait())


async def run_until_first_ends(*coroutines: Coroutine[Any, Any, object]) -> None:
    """Run coroutines concurrently until one ends, then cancel the others. Raises the exception of any coroutine."""
    tasks = {asyncio.create_task(coroutine) for coroutine in coroutines}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
