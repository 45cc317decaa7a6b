"""Durations of the phases of a call, measured with an injected clock and kept for the latest calls."""

import threading
from collections import deque
from collections.abc import Callable

import msgspec

Clock = Callable[[], float]
"""Returns seconds since any fixed moment."""

_KEPT = 256


class Timing(msgspec.Struct, frozen=True):
    """A finished call: its command, its pod, its exit status, and the microseconds of its phases in order."""

    command: str
    pod: str
    status: int
    microseconds: dict[str, float]


class Phases:
    """The durations of the phases of one call. A phase lasts from the previous mark to its own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock()
        self.microseconds: dict[str, float] = {}

    def mark(self, phase: str) -> None:
        """End the current phase under this name; durations of a repeated name add up."""
        now = self._clock()
        self.microseconds[phase] = round(self.microseconds.get(phase, 0) + (now - self._since) * 1e6, 1)
        self._since = now


class Timings:
    """The timings of the latest calls. It is thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: deque[Timing] = deque(maxlen=_KEPT)

    def add(self, timing: Timing) -> None:
        """Add the timing of a call; beyond the limit the oldest is dropped."""
        with self._lock:
            self._last.append(timing)

    def list_timings(self) -> tuple[Timing, ...]:
        """Return the timings of the latest calls, oldest first."""
        with self._lock:
            return tuple(self._last)
