"""Standard input of programs in an emulated server: the agent and its client, over loopback."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from trackbed_lab.vm import agent, channel

pytestmark = pytest.mark.needs("processes")


@pytest.fixture
def server() -> Iterator[channel.Channel]:
    """An agent that serves one request."""

    def serve_once() -> None:
        with listener:
            agent.handle_request(listener.accept()[0], "secret")

    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serve_once)
    thread.start()
    yield channel.Channel("node-0", listener.getsockname()[1], "secret")
    thread.join(60)
    assert not thread.is_alive()


def run(server: channel.Channel, script: str, source: int) -> tuple[int, bytes]:
    """The status and the output of a script whose standard input is a file descriptor."""
    output: list[bytes] = []
    status = channel.stream_command(server, ["sh", "-c", script], lambda _, text: output.append(text), 30.0, source)
    return status, b"".join(output)


def test_input_reaches_a_program_to_its_end(server: channel.Channel, tmp_path: Path) -> None:
    content = os.urandom(300_000)  # more than the buffers of socket and pipe
    (tmp_path / "input").write_bytes(content)
    with (tmp_path / "input").open("rb") as source:
        assert run(server, "cat; exit 7", source.fileno()) == (7, content)


def test_a_program_that_answers_before_its_input_ends_is_heard(server: channel.Channel) -> None:
    read_end, write_end = os.pipe()
    output: list[bytes] = []

    def answer(_: bytes, text: bytes) -> None:
        output.append(text)
        if text == b"ready\n":
            os.write(write_end, b"go\n")

    with os.fdopen(read_end, "rb") as source, os.fdopen(write_end, "wb"):
        argv = ["sh", "-c", "echo ready; read word; echo heard $word"]
        assert channel.stream_command(server, argv, answer, 30.0, source.fileno()) == 0
        os.write(write_end, b"\n")  # wakes the sender, which finds the connection closed
    assert b"".join(output) == b"ready\nheard go\n"


def test_a_program_that_reads_nothing_ends_all_the_same(server: channel.Channel) -> None:
    with Path("/dev/zero").open("rb") as source:
        assert run(server, "echo done", source.fileno()) == (0, b"done\n")


def test_a_program_ends_with_its_client(server: channel.Channel, tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    mark = tmp_path / "pid"
    with os.fdopen(read_end, "rb") as source, os.fdopen(write_end, "wb"):

        def leave(_: bytes, text: bytes) -> None:
            mark.write_bytes(text)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            channel.stream_command(server, ["sh", "-c", "echo $$; exec sleep 60"], leave, 30.0, source.fileno())
    pid = int(mark.read_text())
    stopped = threading.Event()
    for _ in range(300):
        if not Path(f"/proc/{pid}").exists():
            break
        stopped.wait(0.1)
    assert not Path(f"/proc/{pid}").exists()
