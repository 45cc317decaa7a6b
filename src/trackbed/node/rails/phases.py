"""How long each phase of a call took: read from an injected clock, kept for the calls that came last."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

import msgspec

Clock = Callable[[], float]
"""Seconds, from any fixed moment on."""

_KEPT = 256


class Timing(msgspec.Struct, frozen=True):
    """One call that is over: its command, its pod, its exit status, and microseconds by phase in order."""

    command: str
    pod: str
    status: int
    microseconds: dict[str, float]


class Phases:
    """The phases of one call; a phase lasts from the mark before to its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock()
        self.microseconds: dict[str, float] = {}

    def mark(self, phase: str) -> None:
        """End a phase; one that comes again adds up."""
        now = self._clock()
        self.microseconds[phase] = round(self.microseconds.get(phase, 0) + (now - self._since) * 1e6, 1)
        self._since = now


class Timings:
    """The last calls, oldest first. Safe for use by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: deque[Timing] = deque(maxlen=_KEPT)

    def add(self, timing: Timing) -> None:
        """Keep a call's timing."""
        with self._lock:
            self._last.append(timing)

    def list_timings(self) -> tuple[Timing, ...]:
        """What is kept."""
        with self._lock:
            return tuple(self._last)
