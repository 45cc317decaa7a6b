"""Loopback ports for servers of a lab."""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST, _LAST = 20000, 32767
"""The kernel's own callers' ports begin at 32768 (Documentation/networking/ip-sysctl.rst)."""


@contextmanager
def hold_ports(count: int) -> Iterator[tuple[int, ...]]:
    """Ports on 127.0.0.1 that are nobody else's while the block lasts; have the servers listen before it ends.

    Each is bound alone first, and then lets a server with SO_REUSEADDR listen beside it (socket(7): bound sockets may
    share an address while at most one listens): Go's, QEMU's and Python's servers set it. Raises OSError where there
    are too few.
    """
    with ExitStack() as held:
        found: list[int] = []
        for port in random.sample(range(_FIRST, _end()), 1000):
            if len(found) == count:
                break
            mine = held.enter_context(socket.socket())
            try:
                mine.bind(("127.0.0.1", port))
            except OSError:
                continue
            mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.append(port)
        if len(found) < count:
            raise OSError(
                errno.EADDRINUSE, f"no {count} free ports on 127.0.0.1 from {_FIRST} on; stop other servers here"
            )
        yield tuple(found)


def _end() -> int:
    """One above the last port to choose; where callers get lower ones than usual the whole range is as good."""
    lowest = int(_RANGE.read_text().split()[0])
    return lowest if lowest > _FIRST + 1000 else _LAST
