"""Requests that end while their connection makes its TLS handshake."""

from __future__ import annotations

import asyncio

import pytest
from lightkube.config.kubeconfig import KubeConfig
from lightkube.config.models import Cluster, User

from trackbed.cluster.api.client import Client, RequestPolicy
from trackbed.cluster.api.errors import UnreachableError
from trackbed.cluster.api.kubeconfig import ReachableCluster

SECONDS = 60.0


class SilentServer(asyncio.Protocol):
    """Takes the first bytes of a handshake and answers nothing; tells when they come and when the client closes.

    As a proxy it is connected to every server.
    """

    transport: asyncio.Transport

    def __init__(self, spoken: asyncio.Event, closed: asyncio.Event) -> None:
        self.spoken, self.closed = spoken, closed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what answers."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """The client asks for a tunnel, or has begun its handshake."""
        if data.startswith(b"CONNECT"):
            self.transport.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            self.spoken.set()

    def connection_lost(self, _exc: Exception | None) -> None:
        """The client has closed."""
        self.closed.set()


async def end_request(*, timeout_seconds: float, cancels: bool, proxied: bool) -> BaseException:
    """Ask a silent server, cancel the request or wait for its timeout; return how it ended, once it is closed."""
    spoken, closed = asyncio.Event(), asyncio.Event()
    server = await asyncio.get_running_loop().create_server(lambda: SilentServer(spoken, closed), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    cluster = Cluster(server=f"https://127.0.0.1:{port}")
    if proxied:
        cluster = ReachableCluster(server="https://192.0.2.1", proxy_url=f"http://127.0.0.1:{port}")
    config = KubeConfig.from_one(cluster=cluster, user=User()).get()
    assert config
    async with asyncio.timeout(SECONDS), server, Client(config, RequestPolicy(timeout_seconds)) as client:
        request = asyncio.create_task(client.get("/version", dict[str, str]))
        if cancels:
            await spoken.wait()
            request.cancel()
        (ending,) = await asyncio.gather(request, return_exceptions=True)
        await closed.wait()
    assert isinstance(ending, BaseException)
    return ending


@pytest.mark.parametrize("proxied", [False, True])
def test_a_request_that_is_cancelled_in_the_handshake_closes_its_connection(proxied: bool) -> None:
    ending = asyncio.run(end_request(timeout_seconds=SECONDS, cancels=True, proxied=proxied))
    assert isinstance(ending, asyncio.CancelledError)


@pytest.mark.parametrize("proxied", [False, True])
def test_a_handshake_that_takes_too_long_closes_its_connection(proxied: bool) -> None:
    ending = asyncio.run(end_request(timeout_seconds=1.0, cancels=False, proxied=proxied))
    with pytest.raises(UnreachableError, match="no answer from"):
        raise ending
