"""Programs that run beside each other on a host, with bounded time and output, and are killed with their caller."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from trackbed.fleet.relay import Relay
from trackbed.fleet.sheet_input import SheetInput

MAX_STREAM_BYTES = 1 << 12
"""What is kept of the end of each stream."""
_READ_BYTES = 1 << 14
_POLL_SECONDS = 0.05

Start = Callable[[Sequence[str]], "subprocess.Popen[bytes]"]


class _Child:
    """A program that runs, what it has printed, and the relay of its connection."""

    def __init__(self, step: Mapping[str, Any], start: Start, selector: selectors.BaseSelector) -> None:
        """Start it. Raises what `start` and Relay raise."""
        self._relay = Relay(step["relay"], selector) if "relay" in step else None
        try:
            self.process = start(step["argv"])
        except BaseException:
            self.close_relay()
            raise
        self._streams = {"stdout": b"", "stderr": b""}
        for name, pipe in (("stdout", self.process.stdout), ("stderr", self.process.stderr)):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, partial(self._read, pipe, name, selector))

    def _read(self, pipe: Any, name: str, selector: selectors.BaseSelector) -> None:  # noqa: ANN401 - a pipe of Popen
        """Read a part of a stream; at its end, watch it no longer."""
        part = os.read(pipe.fileno(), _READ_BYTES)
        self._streams[name] = (self._streams[name] + part)[-MAX_STREAM_BYTES:]
        if not part:
            selector.unregister(pipe)
            pipe.close()

    def close_relay(self) -> None:
        """End its connection."""
        if self._relay is not None:
            self._relay.close()

    def is_done(self) -> bool:
        """Return whether it has ended, and everything that it printed was read."""
        pipes = (self.process.stdout, self.process.stderr)
        return all(pipe is None or pipe.closed for pipe in pipes) and self.process.poll() is not None

    def kill(self) -> None:
        """Kill it with everything that it started, and wait for it."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.close_relay()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def describe(self, status: int | None) -> Mapping[str, Any]:
        """Return its output as a JSON document; why the relay failed is the last line of its errors."""
        texts = {name: text.decode(errors="replace") for name, text in self._streams.items()}
        if self._relay is not None and self._relay.failure:
            texts["stderr"] += f"\n{self._relay.failure}\n"
        return {"status": status, **texts}


def run_programs(
    steps: Sequence[tuple[int, Mapping[str, Any]]], deadline: float, sheets: SheetInput, start: Start
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Run programs, each `after` seconds from now, and yield their output as they end; those that do not are killed.

    Raises InputClosedError if the input ends meanwhile.
    """
    begin = time.monotonic()
    waiting = sorted(steps, key=lambda step: step[1].get("after", 0), reverse=True)
    children: dict[int, _Child] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(sheets, selectors.EVENT_READ, sheets.read_part)
        try:
            while (waiting or children) and time.monotonic() < deadline:
                while waiting and begin + waiting[-1][1].get("after", 0) <= time.monotonic():
                    step_id, step = waiting.pop()
                    try:
                        children[step_id] = _Child(step, start, selector)
                    except FileNotFoundError:
                        yield step_id, {"missing": step["argv"][0]}
                    except (OSError, ValueError) as error:  # ValueError: a NUL in a word
                        yield step_id, {"status": 126, "stdout": "", "stderr": str(error)}
                for key, _ in selector.select(_POLL_SECONDS):
                    key.data()
                for step_id in [step_id for step_id, child in children.items() if child.is_done()]:
                    child = children.pop(step_id)
                    child.close_relay()
                    yield step_id, child.describe(child.process.returncode)
        finally:
            for child in children.values():
                child.kill()
        yield from ((step_id, child.describe(None)) for step_id, child in children.items())
        yield from (
            (step_id, {"status": None, "stdout": "", "stderr": "not started in time"}) for step_id, _ in waiting
        )
