"""A pod whose interfaces change all the time while they are deleted."""

from __future__ import annotations

import os
import socket
from typing import Any, cast

from trackbed.node.rails import deletion


class _Babbler:
    """A monitor that always has another announcement."""

    def __init__(self) -> None:
        self.count = 0
        self._fd = os.eventfd(1)

    def fileno(self) -> int:
        return self._fd

    def recvfrom(self, _: int) -> tuple[bytes, tuple[int, int]]:
        self.count += 1
        assert self.count < 10_000, "it is never done"
        return b"", (0, 1)


def test_announcements_without_end_are_left_once_the_kernel_has_acknowledged() -> None:
    reader_end, thread_end = socket.socketpair()
    thread_end.close()
    monitor = _Babbler()
    with reader_end:
        assert not deletion._wait_for_deletions(cast("Any", monitor), reader_end, {65536})  # noqa: SLF001 - no pod announces as reliably
    os.close(monitor.fileno())
