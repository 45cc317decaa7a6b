"""Slow clients: their number, their bytes and their time are bounded, and others are served meanwhile."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.cluster.webhook.process import HEAD, STOPS, WebhookProcess, serve_in_process, slow_clients
from tests.cluster.webhook.values import pod
from trackbed.cluster.daemon.connections import MAX_CONNECTIONS, REQUEST_SECONDS

pytestmark = pytest.mark.needs("processes")

COUNT, MEMORY_BYTES = 200, 256 << 20
SECONDS = 60.0


@pytest.fixture
def webhook() -> Iterator[WebhookProcess]:
    with serve_in_process() as process:
        yield process


def connect(webhook: WebhookProcess) -> ssl.SSLSocket:
    trust = ssl.create_default_context(cadata=webhook.held.bundle.decode())
    plain = socket.create_connection(("127.0.0.1", webhook.port), SECONDS)
    return trust.wrap_socket(plain, server_hostname="127.0.0.1")


def review(webhook: WebhookProcess, kept: http.client.HTTPSConnection | None = None) -> int:
    """The status of an honest review, on a connection that is kept or a new one."""
    trust = ssl.create_default_context(cadata=webhook.held.bundle.decode())
    connection = kept or http.client.HTTPSConnection("127.0.0.1", webhook.port, timeout=SECONDS, context=trust)
    request = {"uid": "u", "operation": "CREATE", "namespace": "ml", "object": pod("ml")}
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    connection.request("POST", "/pods?timeout=3s", body)
    response = connection.getresponse()
    response.read()
    if kept is None:
        connection.close()
    return response.status


@pytest.mark.parametrize("stop", STOPS)
def test_clients_that_stop_fill_no_memory_and_keep_nobody_out(webhook: WebhookProcess, stop: str) -> None:
    with slow_clients(webhook, COUNT, stop):
        assert [review(webhook) for _ in range(20)] == [200] * 20
    assert webhook.read_peak_bytes() < MEMORY_BYTES


@pytest.mark.parametrize("stop", ["first line", "headers", "body", "chunks"])
def test_a_request_that_does_not_end_is_ended(webhook: WebhookProcess, stop: str) -> None:
    with connect(webhook) as connection:
        begin = time.monotonic()
        connection.sendall(STOPS[stop][:100_000])
        with suppress(ConnectionResetError, ssl.SSLError):
            assert connection.recv(1) == b""
        assert time.monotonic() - begin > REQUEST_SECONDS * 0.9


def test_more_connections_than_there_may_be_take_no_place_from_one_in_use(webhook: WebhookProcess) -> None:
    trust = ssl.create_default_context(cadata=webhook.held.bundle.decode())
    kept = http.client.HTTPSConnection("127.0.0.1", webhook.port, timeout=SECONDS, context=trust)
    assert review(webhook, kept) == 200
    used = kept.sock
    idle = [socket.create_connection(("127.0.0.1", webhook.port), SECONDS) for _ in range(MAX_CONNECTIONS)]
    assert (review(webhook, kept), kept.sock is used) == (200, True)
    assert review(webhook) == 200
    assert webhook.read_peak_bytes() < MEMORY_BYTES
    for connection in idle:
        connection.close()
    kept.close()


BOMBS = {
    "headers without end": HEAD.encode() + b"A: " + b"b" * 5_000_000,
    "headers by the thousand": HEAD.encode() + b"A: b\r\n" * 100_000,
    "a compressed body": f"{HEAD}Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\n".encode() + b"\x1f\x8b\x08\x00",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_what_no_api_server_sends_is_refused(webhook: WebhookProcess, bomb: bytes) -> None:
    with connect(webhook) as connection:
        try:
            connection.sendall(bomb)
            assert connection.recv(12) in {b"HTTP/1.1 400", b"HTTP/1.0 400", b""}
        except (ConnectionResetError, BrokenPipeError, ssl.SSLError):
            pass
    assert webhook.read_peak_bytes() < MEMORY_BYTES
    assert review(webhook) == 200
