"""What joins this machine's control plane and the nodes' network: pods reach the API server, and it reaches pods.

    python -m trackbed_lab.kubernetes.gateway FOLDER SERVERS

FOLDER is the control plane's; SERVERS the servers' (trackbed_lab.vm.lab), where the switch has a port for us.

    a pod          10.0.0.1:443, the address of service `kubernetes`  ->  the API server on loopback
    the API server CONNECT on FOLDER/pods.sock (egress selector)      ->  an address of a pod

Both ends are the kernel's: an interface in a network namespace of its own, whose frames are the switch's. Nothing of it
can be reached from this machine but through the socket, which is 0600. There is no kube-proxy: of all Services only
`kubernetes` has an address that leads anywhere, and the API server asks for the endpoints of webhooks itself.
"""

from __future__ import annotations

import asyncio
import fcntl
import ipaddress
import json
import os
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from trackbed.kernel.netlink.addresses import Address, add_address
from trackbed.kernel.netlink.links import get_link, set_link
from trackbed.kernel.netlink.routes import RT_TABLE_MAIN, Route, add_route
from trackbed.kernel.netlink.sockets import Socket
from trackbed_lab.kubernetes import node
from trackbed_lab.processes import die_with_parent
from trackbed_lab.sandbox import CLONE_NEWNET, unshare
from trackbed_lab.vm.machine import LabShape, locate_socket

EGRESS = "egress.json"
"""The API server's file that tells it of the socket."""
PODS, API = "pods.sock", "api.sock"
CONFIGURATION = {
    "apiVersion": "apiserver.k8s.io/v1beta1",
    "kind": "EgressSelectorConfiguration",
    "egressSelections": [
        {
            "name": "cluster",
            "connection": {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": PODS}}},
        }
    ],
}

_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000  # include/uapi/linux/if_tun.h
INTERFACE = "cluster"
_PORT = 443
_SECONDS = 5.0
_CHUNK = 1 << 16
_FRAME = 1 << 16

_Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]
"""Both directions of a connection."""


def main(words: Sequence[str]) -> None:
    """The process, and its child that stays in this machine's namespace to reach the API server."""
    folder, servers = Path(words[0]), Path(words[1])
    os.chdir(folder)
    os.umask(0o077)
    if os.fork() == 0:
        die_with_parent()
        asyncio.run(_outside(_api_port(folder)))
    else:
        unshare(CLONE_NEWNET)
        asyncio.run(_inside(servers))


def _api_port(folder: Path) -> int:
    server: str = json.loads((folder / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"]
    return int(server.rpartition(":")[2])


async def _outside(port: int) -> None:
    """Hand what comes in at API on to the API server."""
    dial = partial(asyncio.open_connection, "127.0.0.1", port)
    async with await asyncio.start_unix_server(partial(_relay, dial), API) as server:
        await server.serve_forever()


async def _inside(servers: Path) -> None:
    """Be the gateway of the nodes' network."""
    shape = msgspec.json.decode((servers / "net/shape.json").read_bytes(), type=LabShape)
    tap = opened_tap()
    _configure(shape)
    plug(tap, servers, shape.servers, shape.rails)
    api = await asyncio.start_server(partial(_relay, partial(asyncio.open_unix_connection, API)), node.SERVICE, _PORT)
    async with api, await asyncio.start_unix_server(_connect, PODS) as pods:
        await pods.serve_forever()


def opened_tap() -> int:
    """A new interface INTERFACE in this network namespace; what is read from it and written to it are its frames."""
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", INTERFACE.encode(), _IFF_TAP | _IFF_NO_PI))
    return tap


def _configure(shape: LabShape) -> None:
    """The gateway's addresses, and the ways to each node's pods."""
    with Socket() as sock:
        index = get_link(sock, INTERFACE).index
        sock.request(add_address(Address(index, socket.AF_INET, _number(node.GATEWAY), 24)))
        sock.request(add_address(Address(index, socket.AF_INET, _number(node.SERVICE), 32)))
        for name in ("lo", INTERFACE):
            sock.request(set_link(get_link(sock, name).index, up=True))
        for number in range(shape.servers):
            pods = ipaddress.IPv4Network(node.pod_range(number))
            way = (int(pods.network_address), pods.prefixlen, index, _number(node.address(number)))
            sock.request(add_route(Route(socket.AF_INET, RT_TABLE_MAIN, *way)))


def _number(address: str) -> int:
    return int(ipaddress.IPv4Address(address))


def plug(tap: int, servers: Path, port: int, segment: int) -> None:
    """Join an interface with a port of the switch, for as long as the running loop runs; one datagram is one frame."""
    ours, theirs = (servers / locate_socket(port, segment, end) for end in ("vm", "sw"))
    ours.unlink(missing_ok=True)
    line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    line.bind(str(ours))
    loop = asyncio.get_running_loop()
    loop.add_reader(tap, _from_tap, tap, line, str(theirs))
    loop.add_reader(line, _to_tap, line, tap)


def _from_tap(tap: int, line: socket.socket, theirs: str) -> None:
    """A frame that finds no switch is lost, as on a cable."""
    with suppress(BlockingIOError, FileNotFoundError, ConnectionRefusedError):
        line.sendto(os.read(tap, _FRAME), theirs)


def _to_tap(line: socket.socket, tap: int) -> None:
    with suppress(OSError):  # a frame that the kernel has no use for
        os.write(tap, line.recv(_FRAME))


async def _connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One CONNECT (RFC 9110, 9.3.6) of the API server's."""
    try:
        async with asyncio.timeout(_SECONDS):
            asked = await reader.readuntil(b"\r\n\r\n")
            host, _, port = asked.split(b" ", 2)[1].decode().rpartition(":")
            there = await asyncio.open_connection(host, int(port))
    except (OSError, ValueError, IndexError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
        writer.close()
        return
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    await _join((reader, writer), there)


async def _relay(
    dial: Callable[[], Awaitable[_Ends]], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Join a connection with one that is dialled for it."""
    try:
        there = await dial()
    except OSError:
        writer.close()
        return
    await _join((reader, writer), there)


async def _join(near: _Ends, far: _Ends) -> None:
    await asyncio.gather(_pipe(near[0], far[1]), _pipe(far[0], near[1]))


async def _pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
    sink.close()


if __name__ == "__main__":
    main(sys.argv[1:])
