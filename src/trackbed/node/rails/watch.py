"""A cache for a value read from the ports, which is read again only after a port has changed.

The kernel announces every change of an interface (rtnetlink(7), RTMGRP_LINK). Changes that it does not announce, such
as a driver that loses its RDMA device, are noticed after MAX_AGE_SECONDS.
"""

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from trackbed.kernel.netlink.sockets import open_link_monitor

MAX_AGE_SECONDS = 30.0
_RECEIVE_BYTES = 1 << 16
_MAX_MESSAGES = 1000

_Value = TypeVar("_Value")


class Watch(Generic[_Value]):
    """Calls `read_value` and caches its result until a port changes in the namespace in which the watch was created."""

    def __init__(self, read_value: Callable[[], _Value], clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read_value
        self._clock = clock
        self._monitor = open_link_monitor()
        self._value = read_value()
        self._expiry = clock() + MAX_AGE_SECONDS

    def close(self) -> None:
        """Close the socket that receives the kernel's announcements."""
        self._monitor.close()

    def __call__(self) -> _Value:
        """Return the current value. After an exception of `read_value` the next call reads again."""
        if self._has_changed() or self._clock() > self._expiry:
            self._expiry = 0.0
            self._value = self._read()
            self._expiry = self._clock() + MAX_AGE_SECONDS
        return self._value

    def _has_changed(self) -> bool:
        """Consume all pending announcements; return whether there were any, or some were lost."""
        changed = False
        for _ in range(_MAX_MESSAGES):
            try:
                self._monitor.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                break
            except OSError:  # ENOBUFS: announcements were lost
                return True
            changed = True
        return changed
