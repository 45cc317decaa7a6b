"""Listen addresses, and HTTP servers with a graceful shutdown."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from aiohttp import web

STOP_SECONDS = 5.0
"""Time that pending requests get to finish at shutdown."""
KEEP_SECONDS = 300.0
"""Time after which an idle connection is closed; the API server closes its own after 90 s."""


class ListenError(Exception):
    """An unusable listen address; the message names it."""


class ListenAddress(NamedTuple):
    """The address of a server; no host means all addresses, of IPv4 and IPv6 as far as the kernel supports them."""

    host: str | None
    port: int

    def __str__(self) -> str:
        host = self.host or ""
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


@asynccontextmanager
async def serve_application(
    app: web.Application, address: ListenAddress, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve within the context, which yields the port. Raises ListenError."""
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=KEEP_SECONDS, shutdown_timeout=STOP_SECONDS)
    await runner.setup()
    try:
        try:
            # Host "::" means IPv6 only, as asyncio sets IPV6_V6ONLY; None opens a socket for each family.
            await web.TCPSite(runner, address.host, address.port, ssl_context=tls, backlog=1024).start()
        except OSError as error:
            raise ListenError(f"cannot serve at {address}: {error.strerror}") from error
        if not runner.addresses:  # asyncio skips a family that the kernel does not support
            raise ListenError(
                f"cannot serve at {address}: this kernel has no such addresses; write :{address.port} for all it has"
            )
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
