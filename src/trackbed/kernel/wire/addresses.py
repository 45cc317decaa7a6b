"""IP addresses as ints, and their conversion for the socket calls."""

import socket
from typing import Union

SocketAddress = Union[tuple[str, int], tuple[str, int, int, int]]
"""Address argument of the socket calls, for IPv4 and for IPv6."""

_BYTES = {socket.AF_INET: 4, socket.AF_INET6: 16}
_LINK_LOCAL, _HOST_BITS = 0xFE80 >> 6, 118  # RFC 4291, section 2.5.6: the first ten bits of 128


def format_address(family: int, address: int) -> str:
    """Return an address as text: a dotted quad for IPv4, the form of RFC 5952 for IPv6."""
    return socket.inet_ntop(family, address.to_bytes(_BYTES[socket.AddressFamily(family)], "big"))


def parse_address(family: int, text: str) -> int:
    """Return an address from a socket call as an int; its zone ("%eth0") is ignored."""
    return int.from_bytes(socket.inet_pton(family, text.partition("%")[0]), "big")


def to_socket_address(family: int, address: int, ifindex: int, port: int) -> SocketAddress:
    """Return the argument of bind, connect and sendto; a link-local IPv6 address gets `ifindex` as its zone."""
    text = format_address(family, address)
    if family == socket.AF_INET:
        return text, port
    return text, port, 0, ifindex if address >> _HOST_BITS == _LINK_LOCAL else 0
