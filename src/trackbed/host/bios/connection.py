"""The connection to one BMC. A BMC is believed as little as any host: it may name any URL, and send for ever.

Nothing is sent to another scheme, host or port than the BMC's own, whether a link or a redirect names it: the request
would carry the password. An answer has a limit of length, and all requests together a limit of time.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from requests import PreparedRequest, RequestException, Response
from requests.adapters import HTTPAdapter
from sushy.connector import Connector  # type: ignore[import-untyped] # sushy ships no types
from typing_extensions import override
from urllib3.connection import HTTPSConnection
from urllib3.connectionpool import HTTPSConnectionPool
from urllib3.exceptions import HTTPError

MAX_ANSWER_BYTES = 16 << 20
"""Largest answer of a BMC; registries of attributes take up to 3 MB."""
MAX_TIMEOUTS = 15
"""Limit of the time for all requests, in multiples of the timeout of one. A dozen requests read a whole BMC."""
_PART_BYTES = 1 << 16
_SHOWN_CHARACTERS = 200
_PORTS = {"https": 443, "http": 80}


class BmcError(Exception):
    """A BMC could not be queried or rejected a request; the message names the BMC and the remedy."""


class Bmc(msgspec.Struct, frozen=True):
    """Host and port of a BMC, CA file (None: the system's), and the timeout of each request in seconds."""

    address: str
    ca: Path | None = None
    seconds: float = 20.0


class BmcConnector(Connector):  # type: ignore[misc] # as above
    """sushy's connector, limited to one BMC. It must be closed."""

    def __init__(self, bmc: Bmc) -> None:
        super().__init__(
            f"https://{bmc.address}",
            verify=str(bmc.ca) if bmc.ca else True,
            server_side_retries=1,
            default_request_timeout=bmc.seconds,
            connect_timeout=bmc.seconds,
        )
        adapter = _BmcAdapter(bmc)
        for scheme in _PORTS:
            self._session.mount(f"{scheme}://", adapter)


class _BmcAdapter(HTTPAdapter):
    """Sends requests to one BMC, also those that follow a redirect."""

    def __init__(self, bmc: Bmc) -> None:
        self._bmc = bmc
        self._guard = _DeadlineGuard(MAX_TIMEOUTS * bmc.seconds)
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - requests' own
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = {"https": partial(_GuardedPool, guard=self._guard)}  # type: ignore[dict-item] # it is called only

    def send(self, request: PreparedRequest, *arguments: Any, **options: Any) -> Response:  # noqa: ANN401 - requests' own
        """Send a request and read the whole answer. Raises BmcError for another host, and past a limit."""
        url = str(request.url)
        if not _has_same_origin(url, f"https://{self._bmc.address}"):
            raise BmcError(
                f"{self._bmc.address}: it refers to {url[:_SHOWN_CHARACTERS]}, nothing is sent to another host: "
                "the request would carry the password; update its firmware, or write that address in spec.bios.bmc"
            )
        try:
            response = super().send(request, *arguments, **{**options, "stream": True})
            response._content = self._read_content(response)  # noqa: SLF001 - as requests itself keeps it
        except (RequestException, HTTPError, OSError):
            self._check_deadline()
            raise
        self._check_deadline()  # a connection that was shut down may look like the end of an answer
        return response

    def _check_deadline(self) -> None:
        """Raise BmcError if the guard has shut connections down."""
        if self._guard.has_expired:
            raise BmcError(
                f"{self._bmc.address}: it did not answer all requests within {self._guard.seconds:.0f} s; check its "
                "network, reset the BMC, or wait longer with --timeout"
            )

    def _read_content(self, response: Response) -> bytes:
        content = bytearray()
        for part in response.iter_content(_PART_BYTES):
            content += part
            if len(content) > MAX_ANSWER_BYTES:
                response.close()
                raise BmcError(
                    f"{self._bmc.address}: an answer is larger than {MAX_ANSWER_BYTES >> 20} MiB; update its firmware"
                )
        return bytes(content)

    def close(self) -> None:
        super().close()
        self._guard.close()


class _DeadlineGuard:
    """Shuts connections down at a deadline. Timeouts of single reads do not end an answer that drips."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._timers: list[tuple[threading.Timer, socket.socket]] = []

    @property
    def has_expired(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() >= self._deadline

    def add(self, sock: socket.socket) -> None:
        """Shut the connection of a socket down at the deadline, also if it is closed or wrapped in TLS by then."""
        duplicate = sock.dup()
        timer = threading.Timer(max(0.0, self._deadline - time.monotonic()), _shut_down, [duplicate])
        timer.daemon = True
        timer.start()
        self._timers.append((timer, duplicate))

    def close(self) -> None:
        """Stop watching."""
        for timer, sock in self._timers:
            timer.cancel()
            sock.close()


class _GuardedConnection(HTTPSConnection):
    """A connection that a guard shuts down."""

    guard: _DeadlineGuard

    @override
    def _new_conn(self) -> socket.socket:
        sock = super()._new_conn()
        self.guard.add(sock)
        return sock


class _GuardedPool(HTTPSConnectionPool):
    ConnectionCls = _GuardedConnection

    def __init__(self, *arguments: Any, guard: _DeadlineGuard, **options: Any) -> None:  # noqa: ANN401 - urllib3's own
        super().__init__(*arguments, **options)
        self._guard = guard

    @override
    def _new_conn(self) -> _GuardedConnection:
        connection = super()._new_conn()
        assert isinstance(connection, _GuardedConnection)  # noqa: S101 - by ConnectionCls
        connection.guard = self._guard
        return connection


def _shut_down(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _has_same_origin(url: str, other: str) -> bool:
    """Return whether two URLs have the same scheme, host and port."""
    return _parse_origin(url) == _parse_origin(other)


def _parse_origin(url: str) -> tuple[str, str | None, int]:
    """Return scheme, host and port of a URL. Raises ValueError for a malformed port."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme, 0)
