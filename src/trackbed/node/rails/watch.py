"""Looks at the ports again only when there is a reason: most of the time nothing happens on a node.

The kernel announces every change of an interface (rtnetlink(7), RTMGRP_LINK). What it does not announce, such as a
driver that loses its RDMA device, is seen after LATEST_SECONDS.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from trackbed.kernel.netlink.sockets import open_link_monitor

MAX_AGE_SECONDS = 30.0
_BYTES = 1 << 16
_MOST = 1000

_Seen = TypeVar("_Seen")


class Watch(Generic[_Seen]):
    """What `look` says, not older than the last change. Lives in the network namespace it was made in."""

    def __init__(self, look: Callable[[], _Seen], clock: Callable[[], float] = time.monotonic) -> None:
        self._look = look
        self._clock = clock
        self._announced = open_link_monitor()
        self._seen = look()
        self._until = clock() + MAX_AGE_SECONDS

    def close(self) -> None:
        """Hear no more announcements."""
        self._announced.close()

    def __call__(self) -> _Seen:
        """What there is; raises what `look` raises, and looks again the next time."""
        if self._has_changed() or self._clock() > self._until:
            self._until = 0.0
            self._seen = self._look()
            self._until = self._clock() + MAX_AGE_SECONDS
        return self._seen

    def _has_changed(self) -> bool:
        """Whether anything was announced since the last time; all of it is read, or what could not be kept was lost."""
        changed = False
        for _ in range(_MOST):
            try:
                self._announced.recv(_BYTES)
            except BlockingIOError:
                break
            except OSError:  # ENOBUFS: there was more than the kernel kept
                return True
            changed = True
        return changed
