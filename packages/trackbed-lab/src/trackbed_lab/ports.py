"""Loopback ports for servers of a lab."""

import errno
import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST, _LAST = 20000, 32767
"""The kernel's ephemeral ports begin at 32768 (Documentation/networking/ip-sysctl.rst)."""


@contextmanager
def hold_ports(count: int) -> Iterator[tuple[int, ...]]:
    """Reserve ports on 127.0.0.1 for the block; servers must listen before it ends.

    A reserved port is bound exclusively first. With SO_REUSEADDR set on both sockets a server can then listen on it
    (socket(7): sockets may share an address while at most one listens), which servers in Go, QEMU and Python set.

    Raises:
        OSError: there are too few free ports.
    """
    with ExitStack() as sockets:
        ports: list[int] = []
        for port in random.sample(range(_FIRST, _find_end()), 1000):
            if len(ports) == count:
                break
            reservation = sockets.enter_context(socket.socket())
            try:
                reservation.bind(("127.0.0.1", port))
            except OSError:
                continue
            reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            ports.append(port)
        if len(ports) < count:
            raise OSError(
                errno.EADDRINUSE, f"no {count} free ports on 127.0.0.1 from {_FIRST} on; stop other servers here"
            )
        yield tuple(ports)


def _find_end() -> int:
    """Return the end of the range of ports, exclusive: the first ephemeral port, or the default if that is too low."""
    lowest = int(_RANGE.read_text().split()[0])
    return lowest if lowest > _FIRST + 1000 else _LAST
