"""Blame what tests abandon on their own file: a task, a server, a socket, a thread, a process.

Python complains of an abandoned object when the garbage collector finds it, which happens while some later test runs.
Here garbage is collected at the end of each file, and every complaint fails the last test of that file. Threads and
child processes must have ended by then, except those of fixtures that live longer than a file.
"""

import gc
import logging
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from tests.waiting import wait_until

ABANDONED: Final = "abandoned"
"""Property of the report of a test that was blamed, with what was abandoned."""


class LeakError(Exception):
    """Tests of a file abandoned something."""


class _AsyncioErrors(logging.Handler):
    """Collects what asyncio logs of tasks and transports that nobody awaits or closes."""

    def __init__(self, complaints: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._complaints = complaints

    def emit(self, record: logging.LogRecord) -> None:
        self._complaints.append(self.format(record))


class LeakWatch:
    """Plugin that watches one run of pytest."""

    def __init__(self, grace_seconds: float) -> None:
        """`grace_seconds` is the time limit for threads and processes that are ending."""
        self._grace_seconds = grace_seconds
        self._complaints: list[str] = []
        self._kept_threads: set[threading.Thread] = set()
        self._kept_children: set[int] = set()
        self._handler = _AsyncioErrors(self._complaints)

    def pytest_sessionstart(self) -> None:
        """Listen to the interpreter, in place of pytest's plugin, which blames the test that runs, and to asyncio."""
        self._kept_threads |= set(threading.enumerate())  # a worker of pytest-xdist talks to its parent in one
        sys.unraisablehook = self._note_unraisable
        logging.getLogger("asyncio").addHandler(self._handler)

    def pytest_sessionfinish(self) -> None:
        """Stop listening."""
        sys.unraisablehook = sys.__unraisablehook__
        logging.getLogger("asyncio").removeHandler(self._handler)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        """Except threads and processes of fixtures that outlive a file."""
        if fixturedef.scope not in {"session", "package"}:
            return (yield)
        threads, children = set(threading.enumerate()), set(_iter_children())
        result = yield
        self._kept_threads |= set(threading.enumerate()) - threads
        self._kept_children |= set(_iter_children()) - children
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
        """Fail the test at which a complaint came up; the last one of a file for all that the file left."""
        try:
            yield
        except BaseException as error:
            for complaint in self._pop_complaints(item, nextitem):
                error.add_note(complaint)
            raise
        if complaints := self._pop_complaints(item, nextitem):
            raise LeakError(f"tests of {item.path.name} abandoned what they made:\n" + "\n".join(complaints))

    def _pop_complaints(self, item: pytest.Item, nextitem: pytest.Item | None) -> list[str]:
        if nextitem is None or nextitem.path != item.path:
            gc.collect()
            gc.freeze()  # what is left lives on; read again after each file it would cost a sixth of the whole run
            self._complaints += [*self._find_threads(), *self._find_children()]
        complaints = list(self._complaints)
        self._complaints.clear()
        item.user_properties += [(ABANDONED, complaint) for complaint in complaints]
        return complaints

    def _find_threads(self) -> Iterator[str]:
        for thread in set(threading.enumerate()) - self._kept_threads - {threading.current_thread()}:
            thread.join(self._grace_seconds)
            if thread.is_alive():
                self._kept_threads.add(thread)  # blamed once
                yield f"thread {thread.name} is still running"

    def _find_children(self) -> Iterator[str]:
        with suppress(AssertionError):
            wait_until(lambda: not self._list_new_children(), "child processes end", self._grace_seconds)
        for pid in self._list_new_children():
            self._kept_children.add(pid)  # blamed once
            yield f"process {pid} is still a child of pytest: {_describe_process(pid)}"

    def _list_new_children(self) -> list[int]:
        new = set(_iter_children()) - self._kept_children
        return [pid for pid in new if "multiprocessing.resource_tracker" not in _describe_process(pid)]

    def _note_unraisable(self, unraisable: "sys.UnraisableHookArgs") -> None:
        name = getattr(unraisable.exc_type, "__name__", "")
        self._complaints.append(f"{name}: {unraisable.exc_value} in {unraisable.object!r}"[:1000])


def _iter_children() -> Iterator[int]:
    """Yield the PIDs of this process's children, also of those that wait to be reaped."""
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # the thread ended
            yield from map(int, path.read_text().split())


def _describe_process(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        return words[:200] or f"ended, but not awaited ({Path(f'/proc/{pid}/comm').read_text().strip()})"
    except OSError:
        return "ended"
