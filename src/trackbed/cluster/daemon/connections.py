"""Connections of an HTTP server, within bounds of their number, of bytes received, and of time.

    handshake   HANDSHAKE_SECONDS
    request     REQUEST_SECONDS from its first byte to its last; a review of it has a time limit of its own
    number      when all MAX_CONNECTIONS are open, the one that has finished no request for the longest time gives way,
                but none within GRACE_SECONDS: until then new connections wait in the kernel
    bytes       when requests without a response exceed MAX_RECEIVED_BYTES together, the oldest large one gives way
                that is still being received

So slow clients neither fill the memory nor keep others out, and a client that finishes its requests keeps its
connections. An API server opens connections as it needs them, and keeps 25 of them idle for 90 s for each client
configuration (client-go, transport/cache.go, idleConnsPerHost; apimachinery, util/net/http.go, SetTransportDefaults);
one that is closed meanwhile is replaced by net/http.
"""

import asyncio
import socket
import ssl
from asyncio import sslproto
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus

from aiohttp import web
from prometheus_client import Counter

MAX_CONNECTIONS = 512
MAX_RECEIVED_BYTES = 32 << 20
"""Bytes of requests without a response."""
LARGE_BYTES = 64 << 10
"""A request of more bytes is large. A pod has some kilobytes; those are bounded by the number of connections."""
HANDSHAKE_SECONDS = 5.0
REQUEST_SECONDS = 3.0
"""The API server itself waits no longer for a review of a pod."""
GRACE_SECONDS = 1.0
SHUTDOWN_SECONDS = 1.0
"""Time limit for the peer's part of the end of a TLS connection."""
TLS_BUFFER_BYTES = 32 << 10
"""Size of asyncio's buffer of each TLS connection, also for what is read at once; its default is 256 KiB."""
_SWEEP_SECONDS = 0.5

BODY = web.RequestKey("body", bytes)
"""The body of a request."""
CLOSED = Counter(
    "trackbed_connections_closed_total",
    "Connections that were closed because the client was slow, or because there were too many, or too many bytes.",
    ("reason",),
)


class Connection(asyncio.Protocol):
    """A connection: passes all events to aiohttp's protocol, and measures the current request.

    `transport` is None until the handshake is complete; `used` is the time of its beginning or of its last request.
    """

    def __init__(self, pool: "ConnectionPool", handler: asyncio.Protocol) -> None:
        self._pool, self._handler = pool, handler
        self._loop = asyncio.get_running_loop()
        self.opening: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport | None = None
        self.used = self._loop.time()
        self.request_start: float | None = None
        self.received_bytes = 0
        self.is_received = False
        """Whether the current request has been received, so that only the server can be slow."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, since the handshake is complete."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for mypy; asyncio's servers pass no other
        self.transport = transport
        self._handler.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Count the bytes of the current request, whose first ones these may be."""
        if self.request_start is None:
            self.request_start = self._loop.time()
        self._pool.add_bytes(self, len(data))
        self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass the event on."""
        return self._handler.eof_received()

    def pause_writing(self) -> None:
        """Pass the event on."""
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        """Pass the event on."""
        self._handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave the pool."""
        self._pool.remove(self)
        self._handler.connection_lost(exc)

    def finish_request(self) -> None:
        """Record that the current request has its response."""
        self.used = self._loop.time()
        self._pool.add_bytes(self, -self.received_bytes)
        self.request_start, self.is_received = None, False

    def abort(self, reason: str) -> None:
        """Close the connection at once; `reason` is the metric's label."""
        CLOSED.labels(reason).inc()
        self._pool.remove(self)
        if self.transport is not None:
            self.transport.abort()
        elif self.opening is not None:
            self.opening.cancel()


class ConnectionPool:
    """All connections of a server, and the tasks that accept them and close slow ones."""

    def __init__(self, server: web.Server, tls: ssl.SSLContext | None) -> None:
        sslproto.SSLProtocol.max_size = TLS_BUFFER_BYTES
        self._server, self._tls = server, tls
        self._connections: set[Connection] = set()
        self._removed = asyncio.Event()
        self._received_bytes = 0

    async def accept(self, listener: socket.socket) -> None:
        """Accept connections of a listening socket until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._make_room()
            try:
                accepted, _ = await loop.sock_accept(listener)
            except OSError:  # the client has gone, or the process has no file descriptor left
                await asyncio.sleep(_SWEEP_SECONDS)
                continue
            connection = Connection(self, self._server())
            self._connections.add(connection)
            connection.opening = asyncio.create_task(self._open(connection, accepted))
            await asyncio.sleep(0)  # one handshake each turn of the loop, so that a thousand delay no review

    async def close_slow(self) -> None:
        """Close connections whose request takes too long to arrive, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            latest_start = loop.time() - REQUEST_SECONDS
            for connection in self._list_receiving():
                if connection.request_start is not None and connection.request_start < latest_start:
                    connection.abort("slow")

    def add_bytes(self, connection: Connection, count: int) -> None:
        """Add bytes that were received, or take away those of a finished request; keep the sum within the limit."""
        if connection not in self._connections:
            return
        connection.received_bytes += count
        self._received_bytes += count
        if self._received_bytes <= MAX_RECEIVED_BYTES:
            return
        large = [connection for connection in self._list_receiving() if connection.received_bytes > LARGE_BYTES]
        if large:
            min(large, key=lambda connection: connection.request_start or 0.0).abort("bytes")

    def remove(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        if connection in self._connections:
            self._connections.remove(connection)
            self._received_bytes -= connection.received_bytes
            self._removed.set()

    def close_all(self) -> None:
        """Close all connections at once."""
        for connection in list(self._connections):
            connection.abort("shutdown")

    async def _open(self, connection: Connection, accepted: socket.socket) -> None:
        limits = {"ssl_handshake_timeout": HANDSHAKE_SECONDS, "ssl_shutdown_timeout": SHUTDOWN_SECONDS}
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection, accepted, ssl=self._tls, **(limits if self._tls else {})
            )
        except (OSError, asyncio.CancelledError):  # the handshake failed, took too long, or gave way to others
            self.remove(connection)

    async def _make_room(self) -> None:
        """Wait until another connection may be accepted; close the least used one for it."""
        loop = asyncio.get_running_loop()
        while len(self._connections) >= MAX_CONNECTIONS:
            candidates = [connection for connection in self._connections if not connection.is_received]
            least_used = min(candidates, key=lambda connection: connection.used, default=None)
            wait_seconds = GRACE_SECONDS + (least_used.used - loop.time() if least_used else 0.0)
            if least_used and wait_seconds <= 0:
                least_used.abort("crowded")
                continue
            self._removed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_seconds):
                    await self._removed.wait()

    def _list_receiving(self) -> list[Connection]:
        return [item for item in self._connections if item.request_start is not None and not item.is_received]


@web.middleware
async def receive_request(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Receive the whole request before it is handled, and tell its connection of both ends."""
    connection = request.transport.get_protocol() if request.transport else None
    if not isinstance(connection, Connection):
        return web.Response(status=HTTPStatus.BAD_REQUEST)  # the client has gone
    try:
        try:
            request[BODY] = await _read_body(request)
        except (ConnectionError, web.RequestPayloadError):  # the client has gone, or its body is malformed
            return web.Response(status=HTTPStatus.BAD_REQUEST)
        connection.is_received = True
        return await handler(request)
    finally:
        connection.finish_request()


async def _read_body(request: web.Request) -> bytes:
    """Return the body of a request. Raises HTTPRequestEntityTooLarge, ConnectionError, RequestPayloadError.

    It is freed at once if it does not end: an exception and its frames wait for the garbage collector.
    """
    body = bytearray()
    try:
        while chunk := await request.content.readany():
            body += chunk
            if len(body) > request.client_max_size:
                raise web.HTTPRequestEntityTooLarge(request.client_max_size, len(body))
        return bytes(body)
    finally:
        body.clear()
