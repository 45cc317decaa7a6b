"""The switches of a lab: rail r of all servers is one segment, joined by datagram sockets; the cluster's network too.

    python -m trackbed_lab.vm.switch LAB-FOLDER

LAB-FOLDER/net/shape.json says what the lab looks like. Each leaf tells its name by LLDP (IEEE 802.1AB); where the
Fabric has gateways, a router joins the rails.

A port is a pair of unix datagram sockets, QEMU's and ours; one datagram is one Ethernet frame (qemu(1), -netdev dgram).
The switch learns where addresses are, as a bridge does (IEEE 802.1Q, 8.7), floods what it does not know, and drops
what a port does not take within WAIT_SECONDS. A server that is off takes nothing; when it is back it is found again.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from trackbed.kernel.wire import lldp
from trackbed_lab.vm.machine import LabShape, locate_socket
from trackbed_lab.vm.router import Router

WAIT_SECONDS = 0.02
"""How long a full port holds up its segment: a kernel keeps only some 10 datagrams for each receiver."""

_MAX_FRAME = 1 << 16
_RESERVED = bytes.fromhex("0180c20000")
_LLDP_SECONDS = 1.0
ROUTER = -1
"""Stands for a port: where the router's frames come from."""

_HEADER = 14
_SHORTEST = 60
"""IEEE 802.3, 4.4.2, without the checksum: NICs count shorter ones as errors, and QEMU's do not fill them up."""

_BUFFER = 1 << 20
_MAX_ADDRESSES = 1 << 14
"""Learned for each segment at most; addresses are the servers' to invent."""


@dataclass(slots=True)
class Segment:
    """One rail, or the cluster's network: its ports by number, and behind which port each address was seen."""

    send: dict[int, Callable[[bytes], None]]
    port_by_mac: dict[bytes, int] = field(default_factory=dict)

    def forward(self, port: int, frame: bytes) -> list[int]:
        """Send a frame that came in at `port` on; the ports it went to."""
        if len(frame) < _HEADER:
            return []
        target, source = frame[:6], frame[6:12]
        if not source[0] & 1 and (source in self.port_by_mac or len(self.port_by_mac) < _MAX_ADDRESSES):
            self.port_by_mac[source] = port
        known = None if target[0] & 1 else self.port_by_mac.get(target)
        ports = [one for one in self.send if one != port] if known is None else [known] * (known != port)
        for one in ports:
            self.send[one](frame.ljust(_SHORTEST, b"\0"))
        return ports


def build_sender(ours: socket.socket, theirs: str) -> Callable[[bytes], None]:
    """What hands a frame to the server at `theirs`; lost if nobody is there or it takes too long."""

    def send(frame: bytes) -> None:
        with suppress(FileNotFoundError, ConnectionRefusedError, BlockingIOError):
            ours.sendto(frame, theirs)

    return send


def open_port(path: str) -> socket.socket:
    """Our end of a port."""
    with suppress(FileNotFoundError):
        Path(path).unlink()
    ours = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    wait = struct.pack("ll", 0, int(WAIT_SECONDS * 1e6))  # for sending alone: a timeout of Python's is for both
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, wait)
    ours.bind(path)
    return ours


def serve_ports(shape: LabShape) -> None:
    """Forward for ever; the working directory is the lab's folder."""
    selector = selectors.DefaultSelector()
    segments = []
    for number in range(shape.segments):
        count = shape.servers + (number == shape.rails)  # in the cluster's network one more: its way out
        ports = {server: open_port(locate_socket(server, number, "sw")) for server in range(count)}
        segment = Segment({one: build_sender(ours, locate_socket(one, number, "vm")) for one, ours in ports.items()})
        segments.append(segment)
        for server, ours in ports.items():
            selector.register(ours, selectors.EVENT_READ, (number, server))
    fabric = Switches(segments, Router(shape.gateways))
    spoke = 0.0
    while True:
        for key, _ in selector.select(_LLDP_SECONDS):
            _drain(key.fileobj, fabric, *key.data)
        if time.monotonic() - spoke > _LLDP_SECONDS:
            spoke = time.monotonic()
            send_lldp(shape, segments[: shape.rails])


@dataclass(frozen=True, slots=True)
class Switches:
    """All segments, rails first, and what joins the rails."""

    segments: Sequence[Segment]
    router: Router

    def handle_frame(self, number: int, server: int, frame: bytes) -> None:
        """Let a frame of a server's port go where it must."""
        if frame[:5] == _RESERVED:
            return  # for the switch itself (IEEE 802.1Q, 8.6.3)
        routed = number < len(self.router.gateways)
        if not (routed and frame[:6] == self.router.gateways[number].build_mac(number)):
            self.segments[number].forward(server, frame)
        if routed:
            for out, answer in self.router.handle(number, frame):
                self.segments[out].forward(ROUTER, answer)


def send_lldp(shape: LabShape, segments: Sequence[Segment]) -> None:
    """Each leaf tells each port its name and the port's."""
    for rail, (leaf, segment) in enumerate(zip(shape.list_leaves(), segments, strict=True)):
        source = bytes((2, 0x54, 0x42, 0xFD, rail, 0))
        for server, send in segment.send.items():
            said = lldp.Advertisement(leaf, f"swp{server + 1}", system_name=leaf, port_vlan=1)
            send((_RESERVED + b"\x0e" + source + b"\x88\xcc" + lldp.encode(said)).ljust(_SHORTEST, b"\0"))


_BATCH = 64


def _drain(ours: object, fabric: Switches, number: int, server: int) -> None:
    """Take what has come in at one port, and no more than a batch: others wait."""
    assert isinstance(ours, socket.socket)  # noqa: S101 - nothing else was registered
    with suppress(BlockingIOError):
        for _ in range(_BATCH):
            fabric.handle_frame(number, server, ours.recv(_MAX_FRAME, socket.MSG_DONTWAIT))


def main(words: Sequence[str]) -> None:
    """The process that is the lab's switches."""
    os.chdir(words[0])
    serve_ports(msgspec.json.decode(Path("net/shape.json").read_bytes(), type=LabShape))


if __name__ == "__main__":
    main(sys.argv[1:])
