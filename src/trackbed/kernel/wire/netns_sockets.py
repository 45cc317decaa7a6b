"""Sockets opened inside a network namespace.

A socket belongs to the namespace that its thread was in at creation. So only the creation happens inside it, and
one thread can hold sockets of many namespaces.
"""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import Union

from trackbed.kernel.netlink.netns import enter_netns
from trackbed.kernel.wire.errors import NotAvailable, NotPermitted, ProbeError

Netns = Union[Path, int, None]
"""A network namespace: mount path, file descriptor, or None for that of the calling thread."""

_REFUSED = (errno.EPERM, errno.EACCES)
_UNKNOWN = (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT, errno.EPROTOTYPE)
_RECEIVE_BUFFER_BYTES = 4 << 20  # the kernel charges more than a page for each queued datagram
_SO_RCVBUFFORCE = 33  # include/uapi/asm-generic/socket.h


def open_socket(netns: Netns, family: int, socket_type: int, protocol: int) -> socket.socket:
    """Open a non-blocking socket in `netns`.

    Raises:
        NotPermitted: the process may not open this kind of socket.
        NotAvailable: the kernel does not support this kind of socket.
        OSError: the namespace does not exist.
    """
    try:
        with enter_netns(netns):
            new_socket = socket.socket(family, socket_type | socket.SOCK_NONBLOCK, protocol)
    except OSError as error:
        translated = _translate_error(error, netns, family, socket_type)
        if translated is None:
            raise
        raise translated from error
    _enlarge_receive_buffer(new_socket)
    return new_socket


def _translate_error(error: OSError, netns: Netns, family: int, socket_type: int) -> ProbeError | None:
    socket_kind = f"a {socket.AddressFamily(family).name} socket of kind {socket.SocketKind(socket_type).name}"
    namespace = "this network namespace" if netns is None else f"network namespace {netns}"
    if error.errno in _REFUSED:
        remedy = "run as root or with CAP_NET_RAW"
        if socket_type == socket.SOCK_DGRAM and family != socket.AF_PACKET:
            remedy += ", or let net.ipv4.ping_group_range hold this process's group"  # icmp(7)
        return NotPermitted(f"may not open {socket_kind} in {namespace}: {error.strerror}; {remedy}")
    if error.errno in _UNKNOWN:
        return NotAvailable(f"this kernel offers no {socket_kind[2:]}: {error.strerror}")
    return None


def _enlarge_receive_buffer(new_socket: socket.socket) -> None:
    try:
        new_socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER_BYTES)
    except PermissionError:  # without CAP_NET_ADMIN the limit is net.core.rmem_max
        new_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
