"""A webhook in a process of its own, whose time and memory can be read; and clients that mean it no good."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import re
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path

from tests.cluster.webhook.live import Fixed, Webhook
from tests.cluster.webhook.values import fabric
from trackbed.cluster.webhook.certificates import CertificateSet, renew_certificates
from trackbed.cluster.webhook.cluster_state import ClusterState, Namespace
from trackbed.cluster.webhook.configuration import PODS
from trackbed.cluster.webhook.server import tune_garbage_collector

RAILS = 8
BODY_BYTES = 3_000_000
"""How much of a body a slow client sends before it stops."""
AGAIN_SECONDS = 10.0
"""How long a slow client waits before it comes again."""
_SPAWN = multiprocessing.get_context("spawn")


@dataclass
class WebhookProcess:
    """A webhook in another process."""

    port: int
    held: CertificateSet
    pid: int
    _pipe: Connection

    def read_cpu_seconds(self) -> float:
        """The CPU seconds of the process so far."""
        self._pipe.send("cpu")
        seconds: float = self._pipe.recv()
        return seconds

    def read_peak_bytes(self) -> int:
        """The largest resident memory so far."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) << 10  # type: ignore[index]  # the kernel's format


@contextmanager
def serve_in_process() -> Iterator[WebhookProcess]:
    """A webhook that knows a Fabric and namespace ml, on the first core; without it afterwards."""
    held = renew_certificates(None, ("127.0.0.1",), datetime.now(UTC))
    ours, theirs = multiprocessing.Pipe()
    process = _SPAWN.Process(target=_serve, args=(theirs, held), daemon=True)
    process.start()
    try:
        yield WebhookProcess(ours.recv(), held, process.pid or 0, ours)
    finally:
        ours.send(None)
        process.join(20)


def _serve(parent: Connection, held: CertificateSet) -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    known = ClusterState({"train": fabric("train", "spiderpool", RAILS)}, namespaces={"ml": Namespace()})
    tune_garbage_collector()
    server = Webhook(Fixed(state=known), held)
    parent.send(server.port)
    while parent.recv() is not None:
        parent.send(time.process_time())
    server.stop()


HEAD = f"POST {PODS}?timeout=3s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
STOPS = {
    "handshake": b"",
    "first line": b"POST ",
    "headers": HEAD.encode() + b"A: b\r\n" * 20,
    "body": f"{HEAD}Content-Length: {BODY_BYTES + 1}\r\n\r\n".encode() + b" " * BODY_BYTES,
    "chunks": f"{HEAD}Transfer-Encoding: chunked\r\n\r\n2dc6c1\r\n".encode() + b" " * BODY_BYTES,
}
"""Where a client stops -> what it sends before."""


@contextmanager
def slow_clients(webhook: WebhookProcess, count: int, stop: str = "body") -> Iterator[None]:
    """Clients in a process of their own that send a part of a request and then nothing; each comes again and again."""
    ours, theirs = multiprocessing.Pipe()
    process = _SPAWN.Process(target=_run_clients, args=(theirs, webhook.port, webhook.held, count, stop), daemon=True)
    process.start()
    try:
        ours.recv()
        yield
    finally:
        process.kill()
        process.join(20)


def _run_clients(parent: Connection, port: int, held: CertificateSet, count: int, stop: str) -> None:
    async def run() -> None:
        trust = ssl.create_default_context(cadata=held.bundle.decode())
        sent = [asyncio.Event() for _ in range(count)]
        clients = [asyncio.create_task(_send(port, trust, STOPS[stop], event)) for event in sent]
        await asyncio.gather(*(event.wait() for event in sent))
        parent.send(None)
        await asyncio.gather(*clients)

    asyncio.run(run())


async def _send(port: int, trust: ssl.SSLContext, data: bytes, sent: asyncio.Event) -> None:
    """Send `data` and wait for the end of the connection, again and again."""
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=trust if data else None, ssl_handshake_timeout=30 if data else None
            )
            with suppress(OSError):
                writer.write(data)
                await writer.drain()
            sent.set()
            await reader.read()
            writer.close()
        sent.set()
        await asyncio.sleep(AGAIN_SECONDS)
