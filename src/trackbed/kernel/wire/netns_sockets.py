"""Sockets opened inside a network namespace, with the refusals of the kernel named.

A socket belongs for life to the namespace that its thread was in when it was made; so only the opening happens inside,
and one thread holds sockets in as many namespaces as it likes.
"""

import errno
import socket
from pathlib import Path

from trackbed.kernel.netlink.netns import enter_netns
from trackbed.kernel.wire.errors import NotAvailable, NotPermitted

Netns = Path | int | None
"""A network namespace: where it is pinned, a descriptor of it, or None for that of the calling thread."""

_REFUSED = (errno.EPERM, errno.EACCES)
_UNKNOWN = (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT, errno.EPROTOTYPE)
_RECEIVE_BUFFER_BYTES = 4 << 20  # the kernel counts a whole page and more for each small datagram that waits
_SO_RCVBUFFORCE = 33  # include/uapi/asm-generic/socket.h


def open_socket(netns: Netns, family: int, kind: int, protocol: int) -> socket.socket:
    """Open a non-blocking socket in `netns`.

    Raises:
        NotPermitted: the process may not open this kind of socket.
        NotAvailable: the kernel does not know this kind of socket.
        OSError: the namespace is not there.
    """
    try:
        with enter_netns(netns):
            opened_socket = socket.socket(family, kind | socket.SOCK_NONBLOCK, protocol)
    except OSError as error:
        raise _named(error, netns, family, kind) from error
    _widen(opened_socket)
    return opened_socket


def _named(error: OSError, netns: Netns, family: int, kind: int) -> Exception:
    wanted = f"a {socket.AddressFamily(family).name} socket of kind {socket.SocketKind(kind).name}"
    place = "this network namespace" if netns is None else f"network namespace {netns}"
    if error.errno in _REFUSED:
        return NotPermitted(f"may not open {wanted} in {place}: {error.strerror}; run as root or with CAP_NET_RAW")
    if error.errno in _UNKNOWN:
        return NotAvailable(f"this kernel offers no {wanted[2:]}: {error.strerror}")
    return error


def _widen(opened_socket: socket.socket) -> None:
    try:
        opened_socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER_BYTES)
    except PermissionError:  # without CAP_NET_ADMIN: as much as net.core.rmem_max allows
        opened_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
