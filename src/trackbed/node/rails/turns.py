"""Mutual exclusion of the calls for one attachment; calls for different attachments run in parallel."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

from trackbed.node.rails.attachment import Key
from trackbed.node.rails.errors import CniError, Code


class Turns:
    """A lock for each key that is in use."""

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._guard = threading.Lock()
        self._locks: WeakValueDictionary[Key, threading.Lock] = WeakValueDictionary()

    @contextmanager
    def wait_for(self, key: Key) -> Iterator[None]:
        """Hold the lock of `key`. Raises CniError (TRY_AGAIN) where another call holds it past the timeout."""
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        if not lock.acquire(timeout=self._timeout_seconds):
            message = f"another call for {key[0]}/{key[1]} has been running for {self._timeout_seconds:.0f} seconds"
            raise CniError(Code.TRY_AGAIN, message)
        try:
            yield
        finally:
            lock.release()
