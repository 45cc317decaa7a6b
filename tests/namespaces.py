"""Network namespaces for tests: unnamed, held by a descriptor, gone when it is closed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from trackbed.kernel.netlink import netns


@contextmanager
def fresh_netns() -> Iterator[int]:
    """A new network namespace as a descriptor; skips where namespaces may not be made (fails with CI=true)."""
    results: list[int | OSError] = []

    def make() -> None:
        try:
            netns.unshare()
            results.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            results.append(error)

    thread = threading.Thread(target=make, name="fresh-netns")
    thread.start()
    thread.join()
    if isinstance(results[0], OSError):
        pytest.skip(f"no network namespaces here: {results[0]}")
    try:
        yield results[0]
    finally:
        os.close(results[0])
