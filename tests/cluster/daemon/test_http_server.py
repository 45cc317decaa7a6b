"""Real sockets on loopback: who is answered where."""

from __future__ import annotations

import asyncio
import errno
import socket
from http import HTTPStatus
from http.client import HTTPConnection
from typing import Any

import pytest
from aiohttp import web
from trackbed_lab.ports import hold_ports

from trackbed.cluster.daemon.http_server import ListenAddress, ListenError, serve_application

BOTH = ("127.0.0.1", "::1")


def answered(at: ListenAddress) -> list[str]:
    """The loopback addresses at which somebody listens."""

    async def asked() -> list[str]:
        async with serve_application(web.Application(), at):
            return [host for host in BOTH if await asyncio.to_thread(_connects, host, at.port)]

    return asyncio.run(asked())


def _connects(host: str, port: int) -> bool:
    connection = HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", "/", headers={"Connection": "close"})
        return connection.getresponse().status == HTTPStatus.NOT_FOUND
    except ConnectionRefusedError:
        return False
    finally:
        connection.close()


WHERE = {"everywhere": (None, list(BOTH)), "IPv4": ("127.0.0.1", ["127.0.0.1"]), "IPv6": ("::1", ["::1"])}


@pytest.mark.parametrize(("host", "expected"), WHERE.values(), ids=WHERE)
def test_without_a_host_both_families_are_answered(host: str | None, expected: list[str]) -> None:
    with hold_ports(1) as (port,):
        pass
    assert answered(ListenAddress(host, port)) == expected


class WithoutIpv6(socket.socket):
    """What Linux answers with ipv6.disable=1."""

    def __init__(self, family: int = -1, *arguments: Any, **named: Any) -> None:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        super().__init__(family, *arguments, **named)


def test_a_kernel_without_ipv6_is_served_by_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    async def serves(host: str | None, port: int) -> bool:
        async with serve_application(web.Application(), ListenAddress(host, port)):
            return await asyncio.to_thread(_connects, "127.0.0.1", port)

    with hold_ports(1) as (port,):
        pass
    monkeypatch.setattr(socket, "socket", WithoutIpv6)
    assert asyncio.run(serves(None, port))
    with pytest.raises(ListenError, match=rf"cannot serve at \[::\]:{port}: this kernel has no such addresses"):
        asyncio.run(serves("::", port))


def test_an_address_that_is_taken_is_named() -> None:
    async def twice() -> None:
        async with serve_application(web.Application(), ListenAddress("127.0.0.1", 0)) as port:
            with pytest.raises(ListenError, match=rf"cannot serve at 127\.0\.0\.1:{port}: .*address already in use"):
                async with serve_application(web.Application(), ListenAddress("127.0.0.1", port)):
                    pytest.fail("two servers at one address")

    asyncio.run(twice())


def test_an_address_is_told_as_it_is_written() -> None:
    written = [str(ListenAddress(host, 8443)) for host in (None, "10.0.0.1", "::1", "node-1")]
    assert written == [":8443", "10.0.0.1:8443", "[::1]:8443", "node-1:8443"]
