"""Sandboxes for tests: what runs in one, told back; processes watched until they end, without a look at the clock."""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab.sandbox import start_sandbox

SECONDS = 30.0
"""More than anything here takes; a wait as long as this has failed."""
ENDING_SECONDS = 30.0
"""More than the kernel takes to end processes."""
_REFUSED = 2
"""The keeper's status where the machine does not allow namespaces."""


@contextmanager
def keeper(work: Callable[[], int], folder: Path) -> Iterator[int]:
    """A sandbox under way, by the pid of its keeper; ended and reaped at the end."""
    pid = start_sandbox(work, folder)
    try:
        yield pid
    finally:
        with suppress(ChildProcessError):  # reaped already, so the number may be another's by now
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                for process in (*descendants(pid), pid):
                    os.kill(process, signal.SIGKILL)
                os.waitpid(pid, 0)


def in_sandbox(folder: Path, work: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """What `work` returns in a sandbox; skips where the machine does not allow one (fails with CI=true)."""
    reading, writing = os.pipe()

    def tell() -> int:
        with open(writing, "w", encoding="utf-8") as pipe:  # noqa: PTH123 - a descriptor has no path
            json.dump(work(), pipe)
        return 0

    with open(reading, "rb") as pipe, keeper(tell, folder) as pid:  # noqa: PTH123 - a descriptor has no path
        os.close(writing)
        output = b"".join(iter(lambda: _some(pipe.fileno(), seconds), b""))
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status == _REFUSED:
        pytest.skip("this machine does not allow namespaces for a lab")
    assert status == 0
    return json.loads(output)


def _some(descriptor: int, seconds: float) -> bytes:
    ready, _, _ = select.select([descriptor], [], [], seconds)
    assert ready, f"the sandbox said nothing for {seconds:.0f} s"
    return os.read(descriptor, 1 << 16)


def descendants(pid: int) -> list[int]:
    """All processes below one, as the kernel lists them now."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [descendant for child in map(int, children) for descendant in (child, *descendants(child))]


@contextmanager
def all_ending(pids: list[int]) -> Iterator[None]:
    """Processes that the block ends: it fails, and ends them, if one runs ENDING_SECONDS later (pidfd_open(2))."""
    with ExitStack() as stack:
        watched = {os.pidfd_open(pid): pid for pid in pids}
        for descriptor in watched:
            stack.callback(os.close, descriptor)
            stack.callback(_ended, descriptor)
        yield
        for descriptor, pid in watched.items():
            ready, _, _ = select.select([descriptor], [], [], ENDING_SECONDS)
            assert ready, f"process {pid} still runs"


def _ended(descriptor: int) -> None:
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
