"""Attempts at something that another program must finish first, until a time limit."""

import asyncio
import time
from collections.abc import AsyncIterator

_POLL_SECONDS = 2.0
_REST_FACTOR = 4
"""The pause after a check lasts at least this many times as long as the check."""


async def iter_attempts(limit_seconds: int) -> AsyncIterator[None]:
    """Yield before each attempt until the time limit, once at least. A slow attempt is followed by a longer pause."""
    deadline = time.monotonic() + limit_seconds
    while True:
        began = time.monotonic()
        yield
        now = time.monotonic()
        if now >= deadline:
            return
        await asyncio.sleep(min(max(_POLL_SECONDS, _REST_FACTOR * (now - began)), deadline - now))
