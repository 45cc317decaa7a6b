"""Loopback ports for servers of a lab."""

from __future__ import annotations

import errno
import random
import socket
from contextlib import ExitStack
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST, _LAST = 20000, 32767
"""The kernel's own callers' ports begin at 32768 (Documentation/networking/ip-sysctl.rst)."""


def free_ports(count: int) -> tuple[int, ...]:
    """Ports that nobody listens on; all are held until the last is found, so no two are the same.

    They are below those that the kernel gives to callers: one of these could be taken before a server starts to listen.
    Raises OSError where there are too few.
    """
    found: list[int] = []
    with ExitStack() as held:
        for port in random.sample(range(_FIRST, _end()), 1000):
            if len(found) == count:
                break
            try:
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            found.append(port)
    if len(found) < count:
        raise OSError(errno.EADDRINUSE, f"no {count} free ports on 127.0.0.1 from {_FIRST} on; stop other servers here")
    return tuple(found)


def _end() -> int:
    """One above the last port to choose; where callers get lower ones than usual the whole range is as good."""
    lowest = int(_RANGE.read_text().split()[0])
    return lowest if lowest > _FIRST + 1000 else _LAST
