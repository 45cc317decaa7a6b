"""Work that computes for long, kept away from the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar, cast

_T = TypeVar("_T")
_END = object()


async def iterate_in_thread(items: Iterable[_T]) -> AsyncIterator[_T]:
    """Yield what an iterable yields, computed in a thread: one object of a large fabric takes seconds to render."""
    iterator = iter(items)
    while (item := await asyncio.to_thread(next, iterator, _END)) is not _END:
        yield cast("_T", item)
