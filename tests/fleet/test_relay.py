"""The relay of a program's connection: from the rail's address, where the main table has no route to the rail."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from select import select
from selectors import BaseSelector, DefaultSelector
from typing import Any

import pytest

from tests.namespaces import fresh_netns
from trackbed.fleet.programs import run_programs
from trackbed.fleet.relay import Relay
from trackbed.fleet.sheet_input import SheetInput
from trackbed.host.runner import start_program
from trackbed.kernel.netlink import netns

CLIENT = """#!{python}
import socket, sys
stream = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
stream.sendall(b"settings")
print(stream.recv(100).decode())
stream.sendall(b"the last word")
"""
LIMIT_SECONDS = 60.0
SOURCE, TARGET = "10.64.0.1", "10.64.0.3"


@pytest.fixture
def sheets() -> Iterator[SheetInput]:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb"):
        yield SheetInput(reading)


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def serve(listener: socket.socket, heard: list[tuple[str, str]]) -> None:
    """Answer one connection, and keep who it is from and its last word."""
    listener.settimeout(LIMIT_SECONDS)
    stream, peer = listener.accept()
    with stream:
        stream.settimeout(LIMIT_SECONDS)
        stream.sendall(f"got {stream.recv(100).decode()}".encode())
        heard.append((peer[0], stream.recv(100).decode()))
        assert stream.recv(1) == b""


def run_client(
    folder: Path, sheets: SheetInput, port: int, relay: dict[str, Any], seconds: float = LIMIT_SECONDS
) -> Any:
    """Return the output of a program that connects to its own host."""
    (folder / "client").write_text(CLIENT.format(python=sys.executable))
    (folder / "client").chmod(0o755)
    step = {"argv": ["client", str(port)], "relay": {"port": port, **relay}}
    start = partial(start_program, path=str(folder))
    return dict(run_programs([(0, step)], time.monotonic() + seconds, sheets, start))[0]


@pytest.mark.needs("processes")
def test_what_a_program_says_last_is_carried_on_although_it_has_ended(
    tmp_path: Path, sheets: SheetInput, port: int
) -> None:
    heard: list[tuple[str, str]] = []
    with socket.create_server(("127.0.0.3", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener, heard))
        thread.start()
        target = {"target": "127.0.0.3", "targetPort": listener.getsockname()[1]}
        output = run_client(tmp_path, sheets, port, {"source": "127.0.0.2", **target})
        thread.join()
    assert output == {"status": 0, "stdout": "got settings\n", "stderr": ""}
    assert heard == [("127.0.0.2", "the last word")]


STRANGER = """
import os, socket, sys
os.setuid(65534)  # a socket belongs to who made it
with socket.socket() as stream:
    stream.connect(("127.0.0.1", int(sys.argv[1])))
    assert stream.recv(1) == b""
"""


@pytest.mark.needs("root", "processes")
def test_a_program_of_another_user_is_turned_away_and_the_right_one_served(port: int) -> None:
    with DefaultSelector() as selector, socket.create_server(("127.0.0.3", 0)) as listener:
        step = {"port": port, "source": "127.0.0.2", "target": "127.0.0.3", "targetPort": listener.getsockname()[1]}
        relay = Relay(step, selector)
        stranger = subprocess.Popen([sys.executable, "-c", STRANGER, str(port)])
        drive(selector, lambda: stranger.poll() is not None)
        assert stranger.returncode == 0
        with socket.create_connection(("127.0.0.1", port)) as program:
            program.sendall(b"settings")
            drive(selector, lambda: len(selector.get_map()) == 2)
            with listener.accept()[0] as stream:
                drive(selector, lambda: bool(select([stream], [], [], 0)[0]))
                assert stream.recv(100) == b"settings"
        relay.close()


def drive(selector: BaseSelector, is_done: Callable[[], bool]) -> None:
    """Make the calls of a selector until something holds."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while not is_done():
        assert time.monotonic() < deadline
        for key, _ in selector.select(0.1):
            key.data()


@pytest.mark.needs("processes")
def test_a_program_whose_connection_cannot_be_carried_on_says_why(
    tmp_path: Path, sheets: SheetInput, port: int
) -> None:
    relay = {"source": "127.0.0.2", "target": "127.0.0.3", "targetPort": port}
    output = run_client(tmp_path, sheets, port, relay)
    assert output["status"] == 1
    reason = f"no connection from 127.0.0.2 to 127.0.0.3:{port}: Connection refused"
    assert output["stderr"].splitlines()[-1] == reason
    output = run_client(tmp_path, sheets, port, {**relay, "source": "192.0.2.1"})
    assert output["stderr"].splitlines()[-1].endswith("Cannot assign requested address")


def test_a_port_in_use_is_told_and_nothing_starts(tmp_path: Path, sheets: SheetInput, port: int) -> None:
    with socket.create_server(("127.0.0.1", port)):
        output = run_client(tmp_path, sheets, port, {"source": "127.0.0.2", "target": "127.0.0.3", "targetPort": port})
    assert output == {
        "status": 126,
        "stdout": "",
        "stderr": f"[Errno 98] 127.0.0.1:{port}: Address already in use",
    }


@pytest.mark.needs("processes")
def test_a_partner_that_never_answers_ends_with_the_round(tmp_path: Path, sheets: SheetInput, port: int) -> None:
    with socket.create_server(("127.0.0.3", 0)) as listener:
        relay = {"source": "127.0.0.2", "target": "127.0.0.3", "targetPort": listener.getsockname()[1]}
        output = run_client(tmp_path, sheets, port, relay, seconds=1.0)
    assert output == {"status": None, "stdout": "", "stderr": ""}


@pytest.mark.needs("root", "nsenter", "ip", "processes")
def test_the_connection_leaves_by_the_table_of_the_rail(tmp_path: Path, sheets: SheetInput, port: int) -> None:
    heard: list[tuple[str, str]] = []
    with fresh_netns() as near, fresh_netns() as far:
        for network, words in (
            (near, "link set lo up"),
            (near, f"link add rail0 type veth peer name port netns /proc/{os.getpid()}/fd/{far}"),
            (near, f"addr add {SOURCE}/31 dev rail0"),
            (near, "link set rail0 up"),
            (near, "route add 10.64.0.0/16 dev rail0 via 10.64.0.0 onlink table 100"),
            (near, f"rule add from {SOURCE} lookup 100"),
            (far, "link set lo up"),
            (far, "addr add 10.64.0.0/31 dev port"),
            (far, f"addr add {TARGET}/32 dev port"),
            (far, "link set port up"),
        ):
            argv = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{network}", "ip", *words.split()]
            subprocess.run(argv, check=True, timeout=60)
        with netns.enter_netns(far):
            listener = socket.create_server((TARGET, 0))
        with listener:
            thread = threading.Thread(target=serve, args=(listener, heard))
            thread.start()
            with netns.enter_netns(near):
                relay = {"source": SOURCE, "target": TARGET, "targetPort": listener.getsockname()[1]}
                output = run_client(tmp_path, sheets, port, relay)
            thread.join()
    assert output["stdout"] == "got settings\n"
    assert heard == [(SOURCE, "the last word")]
