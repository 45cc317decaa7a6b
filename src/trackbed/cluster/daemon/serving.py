"""Concurrent work that ends on a signal."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


async def run_until_signal(work: Coroutine[Any, Any, object]) -> None:
    """Run the work until SIGTERM or SIGINT; then cancel it, and wait for its cleanup."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await run_until_first_ends(work, stopped.wait())


async def run_until_first_ends(*work: Coroutine[Any, Any, object]) -> None:
    """Run the coroutines concurrently until one ends; cancel the others. Raises the first exception."""
    tasks = {asyncio.create_task(coroutine) for coroutine in work}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
