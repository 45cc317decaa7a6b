"""IP addresses as ints, and what the socket calls want instead."""

import socket

SocketAddress = tuple[str, int] | tuple[str, int, int, int]
"""What the socket calls take for IPv4 and for IPv6."""

_BYTES = {socket.AF_INET: 4, socket.AF_INET6: 16}
_LINK_LOCAL, _HOST_BITS = 0xFE80 >> 6, 118  # RFC 4291, section 2.5.6: the first ten bits of 128


def format_address(family: int, address: int) -> str:
    """Return the address as RFC 5952 or dotted quad writes it."""
    return socket.inet_ntop(family, address.to_bytes(_BYTES[socket.AddressFamily(family)], "big"))


def parse_address(family: int, text: str) -> int:
    """Return the int of an address as a socket call gave it, without its zone ("%eth0")."""
    return int.from_bytes(socket.inet_pton(family, text.partition("%")[0]), "big")


def to_socket_address(family: int, address: int, ifindex: int, port: int) -> SocketAddress:
    """Return what bind, connect and sendto take; a link-local IPv6 address belongs to interface `ifindex`."""
    text = format_address(family, address)
    if family == socket.AF_INET:
        return text, port
    return text, port, 0, ifindex if address >> _HOST_BITS == _LINK_LOCAL else 0
