"""How much is done at a time, and how soon again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus

AT_ONCE = 32
"""Requests under way at a time."""
AGAIN_SECONDS = 5.0
"""What went wrong is tried again no earlier."""
QUIET_SECONDS = 60.0
"""A look that nothing has caused: some time may be over."""
MOVED_ON = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT})
"""Statuses of a refusal: somebody else wrote or deleted it, and the next look sees what."""

Tell = Callable[[str], None]


async def together(work: Sequence[Callable[[], Awaitable[bool]]]) -> list[bool]:
    """Do it all, a bounded number at a time, in order of beginning; what each said."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(do: Callable[[], Awaitable[bool]]) -> bool:
        async with gate:
            return await do()

    return await asyncio.gather(*(one(do) for do in work))
