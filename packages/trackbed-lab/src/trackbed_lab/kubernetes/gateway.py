"""The gateway between this machine's control plane and the nodes' network, over which pods and the API server connect.

    python -m trackbed_lab.kubernetes.gateway FOLDER SERVERS

FOLDER is that of the control plane, SERVERS that of the servers (trackbed_lab.vm.lab), whose switch has a port for the
gateway.

    a pod          10.0.0.1:443, the address of service `kubernetes`  ->  the API server on loopback
    the API server CONNECT on FOLDER/pods.sock (egress selector)      ->  an address of a pod

The gateway is an interface in its own network namespace, connected to the switch. From this machine it can be reached
only through the socket, whose mode is 0600. There is no kube-proxy: only the service `kubernetes` has a working
address, and the API server connects to the endpoints of webhooks directly.
"""

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

from trackbed.kernel.netlink.addresses import Address, build_add_address
from trackbed.kernel.netlink.links import build_set_link, get_link
from trackbed.kernel.netlink.routes import RT_TABLE_MAIN, Route, build_add_route
from trackbed.kernel.netlink.sockets import Socket
from trackbed_lab.kubernetes import node
from trackbed_lab.processes import die_with_parent
from trackbed_lab.sandbox import CLONE_NEWNET, unshare
from trackbed_lab.vm.machine import LabShape, locate_socket

EGRESS = "egress.json"
"""The API server's configuration file that names the socket."""
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

_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
"""Both directions of a connection."""


def main(arguments: Sequence[str]) -> None:
    """Run the gateway, and a child that remains in this machine's network namespace to reach the API server."""
    folder, servers = Path(arguments[0]), Path(arguments[1])
    os.chdir(folder)
    os.umask(0o077)
    if os.fork() == 0:
        die_with_parent()
        asyncio.run(_serve_outside(_read_api_port(folder)))
    else:
        unshare(CLONE_NEWNET)
        asyncio.run(_serve_inside(servers))


def _read_api_port(folder: Path) -> int:
    server: str = json.loads((folder / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"]
    return int(server.rpartition(":")[2])


async def _serve_outside(port: int) -> None:
    """Relay connections to the socket API to the API server."""
    dial = partial(asyncio.open_connection, "127.0.0.1", port)
    async with await asyncio.start_unix_server(partial(_relay_connection, dial), API) as server:
        await server.serve_forever()


async def _serve_inside(servers: Path) -> None:
    """Configure the gateway's interface; serve the API server to pods, and pods to the API server."""
    shape = msgspec.json.decode((servers / "net/shape.json").read_bytes(), type=LabShape)
    tap = open_tap()
    _configure_interface(shape)
    connect_tap(tap, servers, shape.servers, shape.rails)
    api = await asyncio.start_server(
        partial(_relay_connection, partial(asyncio.open_unix_connection, API)), node.KUBERNETES_SERVICE, _PORT
    )
    async with api, await asyncio.start_unix_server(_handle_connect, PODS) as pods:
        await pods.serve_forever()


def open_tap() -> int:
    """Create the interface INTERFACE in this network namespace; return a descriptor to read and write its frames."""
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", INTERFACE.encode(), _IFF_TAP | _IFF_NO_PI))
    return tap


def _configure_interface(shape: LabShape) -> None:
    """Set the gateway's addresses, and the routes to each node's pods."""
    with Socket() as sock:
        index = get_link(sock, INTERFACE).index
        sock.request(build_add_address(Address(index, socket.AF_INET, _parse_address(node.GATEWAY), 24)))
        sock.request(build_add_address(Address(index, socket.AF_INET, _parse_address(node.KUBERNETES_SERVICE), 32)))
        for name in ("lo", INTERFACE):
            sock.request(build_set_link(get_link(sock, name).index, up=True))
        for number in range(shape.servers):
            pods = ipaddress.IPv4Network(node.get_pod_range(number))
            next_hop = _parse_address(node.get_address(number))
            route = (int(pods.network_address), pods.prefixlen, index, next_hop)
            sock.request(build_add_route(Route(socket.AF_INET, RT_TABLE_MAIN, *route)))


def _parse_address(address: str) -> int:
    return int(ipaddress.IPv4Address(address))


def connect_tap(tap: int, servers: Path, port: int, segment: int) -> None:
    """Connect an interface to a port of the switch while the running loop runs; one datagram is one frame."""
    local, remote = (servers / locate_socket(port, segment, end) for end in ("vm", "sw"))
    local.unlink(missing_ok=True)
    cable = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    cable.bind(str(local))
    loop = asyncio.get_running_loop()
    loop.add_reader(tap, _forward_from_tap, tap, cable, str(remote))
    loop.add_reader(cable, _forward_to_tap, cable, tap)


def _forward_from_tap(tap: int, cable: socket.socket, remote: str) -> None:
    """Forward a frame to the switch; it is dropped if the switch does not accept it."""
    with suppress(BlockingIOError, FileNotFoundError, ConnectionRefusedError):
        cable.sendto(os.read(tap, _FRAME), remote)


def _forward_to_tap(cable: socket.socket, tap: int) -> None:
    with suppress(OSError):  # the kernel refuses malformed frames
        os.write(tap, cable.recv(_FRAME))


async def _handle_connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Serve one CONNECT request (RFC 9110, 9.3.6) of the API server."""
    try:
        async with asyncio.timeout(_SECONDS):
            request = await reader.readuntil(b"\r\n\r\n")
            host, _, port = request.split(b" ", 2)[1].decode().rpartition(":")
            target = await asyncio.open_connection(host, int(port))
    except (OSError, ValueError, IndexError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
        writer.close()
        return
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    await _join_connections((reader, writer), target)


async def _relay_connection(
    dial: Callable[[], Awaitable[_Connection]], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Dial the target and relay a connection to it."""
    try:
        target = await dial()
    except OSError:
        writer.close()
        return
    await _join_connections((reader, writer), target)


async def _join_connections(near: _Connection, far: _Connection) -> None:
    """Copy both directions until both have ended."""
    await asyncio.gather(_copy_stream(near[0], far[1]), _copy_stream(far[0], near[1]))


async def _copy_stream(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
    sink.close()


if __name__ == "__main__":
    main(sys.argv[1:])
