"""The worker of a proof: programs are bounded and killed, and it ends with its input, as with its own death."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.namespaces import fresh_netns
from tests.waiting import wait_until
from trackbed.fleet.pod_worker import PROGRAMS, start_proof_program
from trackbed.fleet.programs import MAX_STREAM_BYTES
from trackbed.fleet.proof_worker import run_steps
from trackbed.fleet.sheet_input import MAX_LINE_BYTES, InputClosedError, SheetInput
from trackbed.host.machine import Machine
from trackbed.host.runner import start_program
from trackbed.prove.rungs import PATH_RUNGS

HOST = Machine(Path("/"))
REQUEST: dict[str, Any] = {"verb": "prove", "name": "gpu1", "node": None, "files": {}, "persist": "none", "seconds": 60}
PART_BYTES = 4096
NODE = "import sys; from trackbed.fleet.node import main; main(sys.argv[1].encode())"


@pytest.fixture
def pipe() -> Iterator[tuple[int, SheetInput]]:
    """Return the writing end of an input, and the input."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb") as stream:
        yield stream.fileno(), SheetInput(reading)


def run_scripts(folder: Path, sheets: SheetInput, *scripts: str, seconds: float = 60.0) -> dict[int, Any]:
    """Run shell scripts as the programs of a round, numbered from 0 on."""
    for number, script in enumerate(scripts):
        (folder / f"program{number}").write_text(f"#!/bin/sh\n{script}\n")
        (folder / f"program{number}").chmod(0o755)
    steps = [(number, {"argv": [f"program{number}"]}) for number in range(len(scripts))]
    start = partial(start_program, path=f"{folder}:/usr/bin:/bin")
    return dict(run_steps(HOST, steps, time.monotonic() + seconds, sheets, start))


@pytest.mark.needs("root", "nsenter", "ip")
def test_a_pod_names_the_interface_and_the_rdma_device_of_each_address(
    tmp_path: Path, pipe: tuple[int, SheetInput]
) -> None:
    for index, gid in (("9", "fe80::1"), ("10", "::ffff:10.64.0.7"), ("11", "::")):
        path = tmp_path / "sys/class/infiniband/mlx5_3/ports/1/gids" / index
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{gid}\n")
    with fresh_netns() as network:
        for words in (
            "link add net1 type veth peer name other",
            "addr add 10.64.0.7/24 dev net1",
            "addr add 10.65.0.7/24 dev net1",
        ):
            argv = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{network}", "ip", *words.split()]
            subprocess.run(argv, check=True, timeout=60)
        machine = Machine(tmp_path, netns=network)
        outputs = dict(run_steps(machine, [(0, {"links": True})], time.monotonic() + 60, pipe[1]))
    assert outputs[0]["links"] == [
        {"netdev": "net1", "address": "10.64.0.7", "rdma": "mlx5_3"},
        {"netdev": "net1", "address": "10.65.0.7", "rdma": None},
    ]


@pytest.mark.needs("processes")
def test_programs_run_beside_each_other_and_keep_their_outputs_apart(
    tmp_path: Path, pipe: tuple[int, SheetInput]
) -> None:
    os.mkfifo(tmp_path / "fifo")
    scripts = ("echo out; echo err >&2; exit 3", f"read line < {tmp_path}/fifo", f"echo > {tmp_path}/fifo")
    outputs = run_scripts(tmp_path, pipe[1], *scripts)
    ended = {"status": 0, "stdout": "", "stderr": ""}
    assert outputs == {0: {"status": 3, "stdout": "out\n", "stderr": "err\n"}, 1: ended, 2: ended}


@pytest.mark.needs("processes")
def test_programs_yield_to_the_services_of_the_host(tmp_path: Path, pipe: tuple[int, SheetInput]) -> None:
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    assert int(run_scripts(tmp_path, pipe[1], "nice")[0]["stdout"]) == min(niceness + 10, 19)


@pytest.mark.needs("processes")
def test_a_program_that_prints_for_ever_is_ended_with_the_end_of_its_output(
    tmp_path: Path, pipe: tuple[int, SheetInput]
) -> None:
    outputs = run_scripts(tmp_path, pipe[1], "yes", seconds=0.5)
    assert (outputs[0]["status"], len(outputs[0]["stdout"])) == (None, MAX_STREAM_BYTES)


@pytest.mark.needs("processes")
def test_what_a_program_started_ends_with_it(tmp_path: Path, pipe: tuple[int, SheetInput]) -> None:
    outputs = run_scripts(tmp_path, pipe[1], "sleep 1000 & echo $!; wait", seconds=0.5)
    wait_until(lambda: not is_alive(int(outputs[0]["stdout"])), "the child of a program is gone")


def test_a_program_that_the_host_lacks_is_missing(pipe: tuple[int, SheetInput]) -> None:
    steps = [(4, {"argv": ["no-such-program"]})]
    assert dict(run_steps(HOST, steps, time.monotonic() + 60, pipe[1])) == {4: {"missing": "no-such-program"}}


@pytest.mark.needs("processes")
def test_words_that_no_program_can_have_end_no_worker(pipe: tuple[int, SheetInput]) -> None:
    steps = [(4, {"argv": ["true", "fd00::1%\x00"]})]
    outputs = dict(run_steps(HOST, steps, time.monotonic() + 60, pipe[1]))
    assert (outputs[4]["status"], outputs[4]["stderr"]) == (126, "embedded null byte")


def test_a_pod_starts_the_programs_of_the_ladder_and_no_other(pipe: tuple[int, SheetInput]) -> None:
    assert {rung.program for rung in PATH_RUNGS.values() if rung.program} == PROGRAMS
    steps = [(4, {"argv": ["sh", "-c", "true"]})]
    outputs = dict(run_steps(HOST, steps, time.monotonic() + 60, pipe[1], start_proof_program))
    assert (outputs[4]["status"], outputs[4]["stderr"]) == (126, "sh is no program of a proof")


def test_no_program_of_a_captured_tree_is_run(tmp_path: Path, pipe: tuple[int, SheetInput]) -> None:
    outputs = dict(run_steps(Machine(tmp_path), [(1, {"argv": ["true"]})], time.monotonic() + 60, pipe[1]))
    assert outputs == {1: {"missing": "true"}}


def test_files_and_missing_programs_of_a_tree_are_read(tmp_path: Path, pipe: tuple[int, SheetInput]) -> None:
    (tmp_path / "sys/gids").mkdir(parents=True)
    (tmp_path / "sys/gids/0").write_text("::\n")
    (tmp_path / "sys/gids/1").write_text("x" * 1000)
    (tmp_path / "sys/out").symlink_to("/etc")
    step = {"files": ["/sys/gids/*", "/sys/none", "/sys/none/*", "/sys/out/*"], "programs": ["true"]}
    outputs = dict(run_steps(Machine(tmp_path), [(0, step)], time.monotonic() + 60, pipe[1]))
    assert outputs == {0: {"files": {"/sys/gids/0": "::", "/sys/gids/1": "x" * 256}, "missing": ["true"]}}


def test_of_long_folders_each_is_read_from_its_beginning(tmp_path: Path, pipe: tuple[int, SheetInput]) -> None:
    """Soft-RoCE has 1,024 places for GIDs, with a type each."""
    for folder in ("gids", "types"):
        (tmp_path / folder).mkdir()
        for number in range(1024):
            (tmp_path / folder / str(number)).write_text(f"{folder} {number}\n")
    step = {"files": ["/gids/*", "/types/*"], "programs": []}
    files = dict(run_steps(Machine(tmp_path), [(0, step)], time.monotonic() + 60, pipe[1]))[0]["files"]
    read = [f"/{folder}/{number}" for folder in ("gids", "types") for number in range(len(files) // 2)]
    assert (list(files), len(files) >= 2 * 16) == (read, True)


def test_an_input_that_ends_or_never_breaks_a_line_is_closed(pipe: tuple[int, SheetInput]) -> None:
    writing, sheets = pipe
    os.write(writing, b"one\ntwo")
    assert sheets.read_line() == b"one"
    for _ in range(MAX_LINE_BYTES // PART_BYTES - 1):
        os.write(writing, b"x" * PART_BYTES)
        sheets.read_part()
    os.write(writing, b"x" * PART_BYTES)
    with pytest.raises(InputClosedError):
        sheets.read_part()


@contextmanager
def started_worker(argv: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start a worker, and a program by a sheet of its; yield both processes once the program runs."""
    process = subprocess.Popen(
        [sys.executable, "-c", NODE, json.dumps(REQUEST)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdin
        rounds = [{"round": 0, "at": 0.0, "seconds": 1000.0, "steps": [[0, {"argv": argv}]]}]
        process.stdin.write(json.dumps({"sheet": 1, "in": 0.0, "rounds": rounds}).encode() + b"\n")
        process.stdin.flush()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        yield process, int(wait_until(children.read_text, "the worker has started its program"))


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.needs("processes")
def test_the_end_of_its_input_ends_a_worker_and_its_programs() -> None:
    with started_worker(["sleep", "1000"]) as (process, program):
        output, _ = process.communicate(timeout=60)
    assert (process.returncode, output.splitlines()) == (0, [b"trackbed began", b'trackbed {"outcome": "same"}'])
    assert not is_alive(program)


@pytest.mark.needs("processes")
@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGTERM])
def test_the_death_of_a_worker_ends_its_programs(kind: signal.Signals) -> None:
    with started_worker(["sleep", "1000"]) as (process, program):
        process.send_signal(kind)
        wait_until(lambda: not is_alive(program), "the program is gone")
