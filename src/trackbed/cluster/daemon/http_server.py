"""HTTP servers with a graceful shutdown, and their listen addresses."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any, Final, NamedTuple

from aiohttp import web

from trackbed.cluster.daemon.connections import ConnectionPool, receive_request

SHUTDOWN_SECONDS = 5.0
"""Time limit for pending requests at shutdown."""
KEEPALIVE_SECONDS = 300.0
"""Time after which an idle connection is closed; the API server closes its own after 90 s."""

_PROTOCOL: Final[dict[str, Any]] = {
    "access_log": None,
    "keepalive_timeout": KEEPALIVE_SECONDS,
    "auto_decompress": False,
    "max_line_size": 4096,
    "max_field_size": 4096,
    "max_headers": 32,
}
"""Settings of aiohttp's protocol. Callers send a dozen short headers and compress nothing: bombs find no room."""
_BACKLOG = 1024


class ListenError(Exception):
    """The listen address cannot be used; the message names it."""


class ListenAddress(NamedTuple):
    """Host and port that a server listens on. A host of None means all IPv4 and IPv6 addresses of the kernel."""

    host: str | None
    port: int

    def __str__(self) -> str:
        host = self.host or ""
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


@asynccontextmanager
async def serve_application(
    app: web.Application, address: ListenAddress, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve a web application within the context; the context manager yields the port. Raises ListenError."""
    app.middlewares.insert(0, receive_request)
    runner = web.AppRunner(app, shutdown_timeout=SHUTDOWN_SECONDS, **_PROTOCOL)
    await runner.setup()
    assert runner.server is not None  # noqa: S101 - for mypy; setup has made it
    pool = ConnectionPool(runner.server, tls)
    tasks: list[asyncio.Task[None]] = []
    try:
        with ExitStack() as stack:
            listeners = [stack.enter_context(listener) for listener in await _open_listeners(address)]
            tasks += [asyncio.create_task(pool.accept(listener)) for listener in listeners]
            tasks.append(asyncio.create_task(pool.close_slow()))
            yield listeners[0].getsockname()[1]
            await _cancel(tasks)
    finally:
        await _cancel(tasks)
        await runner.cleanup()
        pool.close_all()


async def _open_listeners(address: ListenAddress) -> list[socket.socket]:
    """Return listening sockets. Raises ListenError."""
    try:
        # Host "::" means IPv6 only, as asyncio sets IPV6_V6ONLY; None opens a socket for each family.
        server = await asyncio.get_running_loop().create_server(
            asyncio.Protocol, address.host, address.port, start_serving=False
        )
    except OSError as error:
        raise ListenError(f"cannot serve at {address}: {error.strerror}") from error
    listeners = [bound.dup() for bound in server.sockets]
    server.close()
    if not listeners:  # asyncio skips a family that the kernel does not support
        raise ListenError(
            f"cannot serve at {address}: this kernel has no such addresses; write :{address.port} for all addresses"
        )
    for listener in listeners:
        listener.settimeout(0)
        listener.listen(_BACKLOG)
    return listeners


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
