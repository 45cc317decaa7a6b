"""The switches of a lab: each rail is one segment of all servers, and so is the cluster's network.

    python -m trackbed_lab.vm.switch LAB-FOLDER

LAB-FOLDER/net/shape.json has the shape of the lab. Each leaf announces its name by LLDP (IEEE 802.1AB). Where the
Fabric has gateways, a router joins the rails.

The leaves can be slow, lossy or cabled wrongly (module leaves).

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
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from trackbed.kernel.wire import lldp
from trackbed_lab.vm.forwarding import RESERVED, Forwarding, SendFrame, Source
from trackbed_lab.vm.leaves import CablePort, Leaves, read_settings
from trackbed_lab.vm.machine import LabShape, locate_shared_folder, locate_socket
from trackbed_lab.vm.router import Router

WAIT_SECONDS = 0.02
"""Time for a full port to accept a frame: the kernel queues only some 10 datagrams for each receiver."""

_MAX_FRAME = 1 << 16
_SHORTEST = 60
"""Minimum frame without checksum (IEEE 802.3, 4.4.2). NICs count shorter frames as errors; QEMU's do not pad them."""
_LLDP_SECONDS = 1.0
REFUSED_SECONDS = 0.25
"""The servers' reports of refused addresses, and the settings of the leaves, are read that often."""
_BUFFER = 1 << 20


def build_sender(local: socket.socket, remote: str) -> SendFrame:
    """Return a function that sends a frame to the server at `remote`; it drops frames that are not accepted in time."""

    def send(frame: bytes) -> None:
        with suppress(FileNotFoundError, ConnectionRefusedError, BlockingIOError):
            local.sendto(frame.ljust(_SHORTEST, b"\0"), remote)

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
    ports = {
        CablePort(server, number): open_port(locate_socket(server, number, "sw"))
        for number in range(shape.segments)
        for server in range(shape.servers + (number == shape.rails))  # one more for the cluster's gateway
    }
    for port, local in ports.items():
        selector.register(local, selectors.EVENT_READ, port)
    senders = {port: build_sender(local, locate_socket(*port, "vm")) for port, local in ports.items()}
    forwarding = Forwarding(senders, Router(shape.gateways), Leaves(shape))
    announced, read, wait = 0.0, 0.0, _LLDP_SECONDS
    while True:
        ready = selector.select(wait)
        if time.monotonic() - read > REFUSED_SECONDS:  # before the frames: an idle switch has an old report
            read = time.monotonic()
            forwarding.refused = read_refused(Path(), shape)
            _read_settings(forwarding)
        for key, _ in ready:
            _handle_pending_frames(key.fileobj, forwarding, key.data)
        if time.monotonic() - announced > _LLDP_SECONDS:
            announced = time.monotonic()
            send_lldp(shape, forwarding)
        next_arrival = forwarding.deliver_waiting(time.monotonic())
        wait = _LLDP_SECONDS if next_arrival is None else min(_LLDP_SECONDS, next_arrival)


def _read_settings(forwarding: Forwarding) -> None:
    settings = read_settings(Path())
    if settings != forwarding.leaves.settings:
        forwarding.apply_settings(settings)


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


def send_lldp(shape: LabShape, forwarding: Forwarding) -> None:
    """Announce leaf and port by LLDP on every port of a rail."""
    for rail in range(shape.rails):
        source = bytes((2, 0x54, 0x42, 0xFD, rail, 0))
        for server, send in forwarding.list_plugged(rail):
            leaf = shape.list_leaves(server)[rail]
            advertisement = lldp.Advertisement(leaf, f"swp{server + 1}", system_name=leaf, port_vlan=1)
            send(RESERVED + b"\x0e" + source + b"\x88\xcc" + lldp.encode(advertisement))


_BATCH = 64


def _handle_pending_frames(local: object, forwarding: Forwarding, port: CablePort) -> None:
    """Handle the pending frames of one port, at most a batch so that other ports are served."""
    assert isinstance(local, socket.socket)  # noqa: S101 - only sockets were registered
    with suppress(BlockingIOError):
        for _ in range(_BATCH):
            forwarding.handle_frame(port, local.recv(_MAX_FRAME, socket.MSG_DONTWAIT), time.monotonic())


def main(arguments: Sequence[str]) -> None:
    """Run the switches of a lab."""
    os.chdir(arguments[0])
    serve_ports(msgspec.json.decode(Path("net/shape.json").read_bytes(), type=LabShape))


if __name__ == "__main__":
    main(sys.argv[1:])
