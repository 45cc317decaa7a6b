"""Standard input of a worker: lines, and the end of it, which is the end of the connection."""

from __future__ import annotations

import os
import select
import time

MAX_LINE_BYTES = 4 << 20
"""Longest line: a sheet of 128 rounds on 8 rails has 1 MB."""
_READ_BYTES = 1 << 16


class InputClosedError(Exception):
    """The input has ended: the connection is gone, or the control node is done."""


class SheetInput:
    """Lines of a descriptor, read without a thread beside other waits."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._buffer = descriptor, b""

    def fileno(self) -> int:
        """Return the descriptor, for a selector."""
        return self._descriptor

    def read_part(self) -> None:
        """Read what has arrived. Raises InputClosedError at the end, or where a line is too long."""
        part = os.read(self._descriptor, _READ_BYTES)
        self._buffer += part
        if not part or len(self._buffer) > MAX_LINE_BYTES:
            raise InputClosedError

    def read_line(self) -> bytes:
        """Wait for a line. Raises InputClosedError."""
        while b"\n" not in self._buffer:
            self.read_part()
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def sleep_until(self, deadline: float) -> None:
        """Sleep until a time of the monotonic clock. Raises InputClosedError if the input ends meanwhile."""
        while (seconds := deadline - time.monotonic()) > 0:
            if select.select([self._descriptor], [], [], seconds)[0]:
                self.read_part()
