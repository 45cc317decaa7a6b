"""The switches of a lab: each rail is one segment of all servers, and so is the cluster's network.

    python -m trackbed_lab.vm.switch LAB-FOLDER

LAB-FOLDER/net/shape.json has the shape of the lab. Each leaf announces its name by LLDP (IEEE 802.1AB). Where the
Fabric has gateways, a router joins the rails.

A frame from a VF whose port was given no MAC address, or another one, is dropped, as mlx5's spoof check does. Each
server reports such addresses (module vf_recorder).

A port is a pair of unix datagram sockets, QEMU's and the switch's; a datagram is one Ethernet frame (qemu(1), -netdev
dgram). The switch learns addresses as a bridge does (IEEE 802.1Q, 8.7), floods frames for unknown ones, and drops a
frame that a port does not accept within WAIT_SECONDS. Frames for a server that is off are dropped until it is back.
"""

import json
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
from trackbed_lab.vm.machine import LabShape, locate_shared_folder, locate_socket
from trackbed_lab.vm.router import Router, build_gateway_mac

WAIT_SECONDS = 0.02
"""Time for a full port to accept a frame: the kernel queues only some 10 datagrams for each receiver."""

_MAX_FRAME = 1 << 16
_RESERVED = bytes.fromhex("0180c20000")
_LLDP_SECONDS = 1.0
REFUSED_SECONDS = 0.25
"""The servers' reports of refused addresses are read that often."""

ROUTER = -1
"""Port number of the router in every segment."""

_HEADER = 14
_SHORTEST = 60
"""Minimum frame without checksum (IEEE 802.3, 4.4.2). NICs count shorter frames as errors; QEMU's do not pad them."""

_BUFFER = 1 << 20
_MAX_ADDRESSES = 1 << 14
"""Limit of learned addresses for each segment, as servers can send from any number of addresses."""


@dataclass(slots=True)
class Segment:
    """One rail, or the cluster's network: a send function for each port, and the port of each learned address."""

    send: dict[int, Callable[[bytes], None]]
    port_by_mac: dict[bytes, int] = field(default_factory=dict)

    def forward(self, port: int, frame: bytes) -> list[int]:
        """Forward a frame that arrived at `port`; return the ports it was sent to."""
        if len(frame) < _HEADER:
            return []
        target, source = frame[:6], frame[6:12]
        if not source[0] & 1 and (source in self.port_by_mac or len(self.port_by_mac) < _MAX_ADDRESSES):
            self.port_by_mac[source] = port
        learned = None if target[0] & 1 else self.port_by_mac.get(target)
        targets = (
            [number for number in self.send if number != port] if learned is None else [learned] * (learned != port)
        )
        for number in targets:
            self.send[number](frame.ljust(_SHORTEST, b"\0"))
        return targets


def build_sender(local: socket.socket, remote: str) -> Callable[[bytes], None]:
    """Return a function that sends a frame to the server at `remote`; it drops frames that are not accepted in time."""

    def send(frame: bytes) -> None:
        with suppress(FileNotFoundError, ConnectionRefusedError, BlockingIOError):
            local.sendto(frame, remote)

    return send


def open_port(path: str) -> socket.socket:
    """Open the switch's socket of a port."""
    with suppress(FileNotFoundError):
        Path(path).unlink()
    local = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    local.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    timeout = struct.pack("ll", 0, int(WAIT_SECONDS * 1e6))  # settimeout would limit receiving too
    local.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
    local.bind(path)
    return local


def serve_ports(shape: LabShape) -> None:
    """Forward frames forever; the working directory is the lab's folder."""
    selector = selectors.DefaultSelector()
    segments = []
    for number in range(shape.segments):
        count = shape.servers + (number == shape.rails)  # the cluster's network has one more port, for its gateway
        ports = {server: open_port(locate_socket(server, number, "sw")) for server in range(count)}
        senders = {server: build_sender(port, locate_socket(server, number, "vm")) for server, port in ports.items()}
        segments.append(Segment(senders))
        for server, port in ports.items():
            selector.register(port, selectors.EVENT_READ, (number, server))
    switches = Switches(segments, Router(shape.gateways))
    announced, refused = 0.0, 0.0
    while True:
        ready = selector.select(_LLDP_SECONDS)
        if time.monotonic() - refused > REFUSED_SECONDS:  # before the frames: an idle switch has an old report
            refused = time.monotonic()
            switches.refused = read_refused(Path(), shape)
        for key, _ in ready:
            _handle_pending_frames(key.fileobj, switches, *key.data)
        if time.monotonic() - announced > _LLDP_SECONDS:
            announced = time.monotonic()
            send_lldp(shape, segments[: shape.rails])


Source = tuple[int, int, bytes]
"""Segment, server and MAC address of a sender."""


def read_refused(folder: Path, shape: LabShape) -> set[Source]:
    """Return the senders that servers report as VFs with an address that nobody set."""
    refused: set[Source] = set()
    for server, name in enumerate(shape.list_servers()):
        with suppress(OSError, ValueError):
            report = json.loads((locate_shared_folder(folder, name) / "spoof.json").read_bytes())
            refused |= {
                (int(rail), server, bytes.fromhex(mac.replace(":", ""))) for rail in report for mac in report[rail]
            }
    return refused


@dataclass(slots=True)
class Switches:
    """All segments, rails first, the router that joins the rails, and the senders whose frames are dropped."""

    segments: Sequence[Segment]
    router: Router
    refused: set[Source] = field(default_factory=set)

    def handle_frame(self, segment_number: int, server: int, frame: bytes) -> None:
        """Forward or route a frame that arrived at a server's port of a segment."""
        if (segment_number, server, frame[6:12]) in self.refused:
            return
        if frame[:5] == _RESERVED:
            return  # reserved addresses are not forwarded (IEEE 802.1Q, 8.6.3)
        routed = segment_number < len(self.router.gateways)
        if not (routed and frame[:6] == build_gateway_mac(segment_number)):
            self.segments[segment_number].forward(server, frame)
        if routed:
            for rail, output in self.router.handle_frame(segment_number, frame):
                self.segments[rail].forward(ROUTER, output)


def send_lldp(shape: LabShape, segments: Sequence[Segment]) -> None:
    """Announce leaf and port by LLDP on every port."""
    for rail, (leaf, segment) in enumerate(zip(shape.list_leaves(), segments, strict=True)):
        source = bytes((2, 0x54, 0x42, 0xFD, rail, 0))
        for server, send in segment.send.items():
            advertisement = lldp.Advertisement(leaf, f"swp{server + 1}", system_name=leaf, port_vlan=1)
            send((_RESERVED + b"\x0e" + source + b"\x88\xcc" + lldp.encode(advertisement)).ljust(_SHORTEST, b"\0"))


_BATCH = 64


def _handle_pending_frames(port: object, switches: Switches, segment_number: int, server: int) -> None:
    """Handle the pending frames of one port, at most a batch so that other ports are served."""
    assert isinstance(port, socket.socket)  # noqa: S101 - only sockets were registered
    with suppress(BlockingIOError):
        for _ in range(_BATCH):
            switches.handle_frame(segment_number, server, port.recv(_MAX_FRAME, socket.MSG_DONTWAIT))


def main(arguments: Sequence[str]) -> None:
    """Run the switches of a lab."""
    os.chdir(arguments[0])
    serve_ports(msgspec.json.decode(Path("net/shape.json").read_bytes(), type=LabShape))


if __name__ == "__main__":
    main(sys.argv[1:])
