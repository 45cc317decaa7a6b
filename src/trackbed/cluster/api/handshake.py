"""Closing of connections that a cancelled request leaves in their TLS handshake.

httpcore2 (2.16.2, AnyIOStream.start_tls) closes a connection whose handshake fails, but not one whose request is
cancelled meanwhile: asyncio.CancelledError is no Exception, and the pool does not have the connection yet.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx2 as httpx

_Trace = Callable[[str, Mapping[str, Any]], Awaitable[None]]


async def close_unfinished_handshake(request: httpx.Request) -> None:
    """Have the request close its new connection if it ends during the handshake; a request hook of httpx."""
    request.extensions["trace"] = _build_trace()


def _build_trace() -> _Trace:
    """Return a function that httpcore calls before and after each step of a request."""
    streams: list[Any] = []

    async def trace(step: str, info: Mapping[str, Any]) -> None:
        if step == "connection.connect_tcp.complete":
            streams.append(info["return_value"])
        elif step in {"connection.start_tls.failed", "proxy.start_tls.failed"}:
            for stream in streams:
                await stream.aclose()

    return trace
