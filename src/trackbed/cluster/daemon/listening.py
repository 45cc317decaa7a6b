"""Where servers listen, and that they end as they should."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from aiohttp import web

STOP_SECONDS = 5.0
"""What requests under way get to end."""
KEEP_SECONDS = 300.0
"""How long an idle connection stays; the API server closes its own after 90."""


class ListenError(Exception):
    """An address that cannot be listened on; the message names it."""


class ListenAddress(NamedTuple):
    """Where a server listens; without a host on all addresses, of IPv4 and of IPv6 as far as the kernel has them."""

    host: str | None
    port: int

    def __str__(self) -> str:
        host = self.host or ""
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


@asynccontextmanager
async def listening(app: web.Application, at: ListenAddress, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve until the block ends; yields the port. Raises ListenError."""
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=KEEP_SECONDS, shutdown_timeout=STOP_SECONDS)
    await runner.setup()
    try:
        try:
            # A host of "::" would be IPv6 alone, as asyncio sets IPV6_V6ONLY; None is a socket for each family.
            await web.TCPSite(runner, at.host, at.port, ssl_context=tls, backlog=1024).start()
        except OSError as error:
            raise ListenError(f"cannot serve at {at}: {error.strerror}") from error
        if not runner.addresses:  # asyncio passes over a family that the kernel has not
            raise ListenError(
                f"cannot serve at {at}: this kernel has no such addresses; write :{at.port} for all it has"
            )
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
