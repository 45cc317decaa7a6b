"""Frames of one Ethernet type, sent and received on every interface of a network namespace by one socket (packet(7)).

One socket serves all interfaces because closing an AF_PACKET socket waits for an RCU grace period (8 to 20 ms measured,
bound to an interface or not). Eight sockets would take longer than the setup of all NICs of a pod.
"""

import errno
import fcntl
import math
import select
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass

from trackbed.kernel.wire.netns_sockets import Netns, open_socket

_SIOCGIFNAME = 0x8910  # include/uapi/linux/sockios.h
_SIOCGIFINDEX = 0x8933
_SIOCGIFHWADDR = 0x8927
_IFREQ = struct.Struct("16si20x")  # include/uapi/linux/if.h: struct ifreq, 40 bytes
_MAC_AT = 18  # in ifreq: the name, then sa_family of the address
_FRAME_BYTES = 9216  # the largest MTU in use on Ethernet
_FRAMES_AT_ONCE = 1024  # a flood must not keep a drain from ending
_PACKET_OUTGOING = 4  # include/uapi/linux/if_packet.h


@dataclass(frozen=True)
class Frame:
    """A received frame: its interface, and its payload without the Ethernet header."""

    ifindex: int
    source_mac: bytes
    payload: bytes


def open_packets(netns: Netns, ethertype: int) -> socket.socket:
    """Open a non-blocking socket for frames of `ethertype` on all interfaces of `netns`.

    Closing it blocks for up to 20 ms, so an event loop must close it in a thread.
    """
    return open_socket(netns, socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ethertype))


def read_name(packets: socket.socket, ifindex: int) -> str:
    """Return the name of an interface in the socket's namespace.

    Raises:
        OSError: it does not exist (ENODEV), or its name is no UTF-8 (EINVAL), as sockets require.
    """
    reply = fcntl.ioctl(packets, _SIOCGIFNAME, _IFREQ.pack(b"", ifindex))
    name: bytes = _IFREQ.unpack(reply)[0].rstrip(b"\0")
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise OSError(errno.EINVAL, f"interface {ifindex} has a name that is no UTF-8") from error


def read_mac(packets: socket.socket, ifindex: int) -> bytes:
    """Return the MAC address of an interface, 6 bytes; OSError (ENODEV) if it does not exist."""
    name = read_name(packets, ifindex).encode()
    return fcntl.ioctl(packets, _SIOCGIFHWADDR, _IFREQ.pack(name, 0))[_MAC_AT : _MAC_AT + 6]


def send_frame(packets: socket.socket, ifindex: int, ethertype: int, destination_mac: bytes, payload: bytes) -> None:
    """Send one frame. Raises OSError if the interface is gone or down (ENODEV, ENETDOWN), or as `read_name` does."""
    packets.sendto(payload, (read_name(packets, ifindex), ethertype, 0, 0, destination_mac))


def receive_pending_frames(packets: socket.socket) -> Iterator[Frame]:
    """Yield the frames that have arrived, without waiting; at most 1024, so that a flood cannot block the caller."""
    for _ in range(_FRAMES_AT_ONCE):
        try:
            payload, origin = packets.recvfrom(_FRAME_BYTES)
            name, _ethertype, kind, _hardware, source_mac = origin
            if kind != _PACKET_OUTGOING:
                yield Frame(_read_ifindex(packets, name), source_mac, payload)
        except BlockingIOError:
            return
        except OSError:  # pending error of an interface that went down, reported once; others still work
            continue
        except UnicodeDecodeError:  # from an interface of a pod whose name is no UTF-8
            continue


def receive_frames_until(packets: socket.socket, timeout_seconds: float) -> Iterator[Frame]:
    """Yield frames as they arrive until `timeout_seconds` have passed; the caller may stop earlier."""
    deadline = time.monotonic() + timeout_seconds
    poller = select.poll()  # unlike select(), it accepts descriptors above 1023
    poller.register(packets, select.POLLIN)
    while (left_seconds := deadline - time.monotonic()) > 0:
        if poller.poll(math.ceil(left_seconds * 1000)):
            yield from receive_pending_frames(packets)
    yield from receive_pending_frames(packets)


def _read_ifindex(packets: socket.socket, name: str) -> int:
    reply = fcntl.ioctl(packets, _SIOCGIFINDEX, _IFREQ.pack(name.encode(), 0))
    return int(_IFREQ.unpack(reply)[1])
