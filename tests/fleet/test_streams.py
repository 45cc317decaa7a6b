"""TCP streams of a proof's worker, on loopback."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from trackbed.fleet.sheet_input import InputClosedError, SheetInput
from trackbed.fleet.streams import run_streams

pytestmark = pytest.mark.needs("processes")

LEFT, RIGHT, STRANGER = "127.0.0.2", "127.0.0.3", "127.0.0.4"
LIMIT_SECONDS = 60.0


@pytest.fixture
def sheets() -> Iterator[tuple[int, SheetInput]]:
    """Return the writing end of an input, and the input."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb") as stream:
        yield stream.fileno(), SheetInput(reading)


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind((RIGHT, 0))
        return int(free.getsockname()[1])


def build_step(source: str, target: str, port: int, *, listens: bool, seconds: float = 0.2) -> dict[str, Any]:
    stream = {"source": source, "target": target, "port": port, "listens": listens, "sourcePort": 0}
    return {"stream": {**stream, "seconds": seconds}, "after": 0.0}


def test_both_ends_count_what_arrives(sheets: tuple[int, SheetInput], port: int) -> None:
    steps = [
        (4, build_step(LEFT, RIGHT, port, listens=False)),
        (5, build_step(RIGHT, LEFT, port, listens=True)),
    ]
    outputs = dict(run_streams(steps, time.monotonic() + LIMIT_SECONDS, sheets[1]))
    assert set(outputs) == {4, 5}
    for output in outputs.values():
        assert output["receivedBytes"] > 0, output
        assert output["seconds"] > 0
        assert output["segmentBytes"] > 0


def test_a_window_ends_with_its_round(sheets: tuple[int, SheetInput], port: int) -> None:
    steps = [
        (4, build_step(LEFT, RIGHT, port, listens=False, seconds=3600.0)),
        (5, build_step(RIGHT, LEFT, port, listens=True, seconds=3600.0)),
    ]
    outputs = dict(run_streams(steps, time.monotonic() + 5.0, sheets[1]))
    assert all(output.get("seconds", 0.0) < 5.0 for output in outputs.values()), outputs


def test_a_connection_without_time_for_a_window_is_told(sheets: tuple[int, SheetInput], port: int) -> None:
    steps = [
        (4, build_step(LEFT, RIGHT, port, listens=False)),
        (5, build_step(RIGHT, LEFT, port, listens=True)),
    ]
    outputs = dict(run_streams(steps, time.monotonic() + 2.0, sheets[1]))
    assert {frozenset(output) for output in outputs.values()} == {frozenset({"failure"})}


def test_an_end_accepts_its_target_alone(sheets: tuple[int, SheetInput], port: int) -> None:
    steps = [
        (0, build_step(STRANGER, RIGHT, port, listens=False)),
        (1, build_step(RIGHT, LEFT, port, listens=True)),
    ]
    outputs = dict(run_streams(steps, time.monotonic() + 3.0, sheets[1]))
    assert "failure" in outputs[0]
    assert outputs[1]["failure"] in {"timed out", f"{LEFT} did not connect in time", "the stream did not end in time"}


def test_a_peer_that_does_not_listen_is_told(sheets: tuple[int, SheetInput], port: int) -> None:
    steps = [(0, build_step(LEFT, RIGHT, port, listens=False))]
    outputs = dict(run_streams(steps, time.monotonic() + 1.0, sheets[1]))
    assert "refused" in outputs[0]["failure"]


def test_an_address_that_the_host_lacks_is_told(sheets: tuple[int, SheetInput], port: int) -> None:
    steps = [(0, build_step("192.0.2.1", RIGHT, port, listens=True))]
    outputs = dict(run_streams(steps, time.monotonic() + LIMIT_SECONDS, sheets[1]))
    assert "Cannot assign requested address" in outputs[0]["failure"]


def test_streams_end_with_the_input(sheets: tuple[int, SheetInput], port: int) -> None:
    steps = [(0, build_step(RIGHT, LEFT, port, listens=True))]
    running = run_streams(steps, time.monotonic() + 3.0, sheets[1])
    os.dup2(os.open(os.devnull, os.O_WRONLY), sheets[0])  # the pipe has no writer any more
    with pytest.raises(InputClosedError):
        list(running)
