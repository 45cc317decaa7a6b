"""However a command's output is taken from it, it ends without a traceback and with a status that says so."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.invocations import Ended, into
from tests.cli.test_command_tree import EXAMPLES, exit_codes, furnish

pytestmark = pytest.mark.needs("processes")

READ = [words for words in sorted(exit_codes()) if "--no-such-option" not in words]
PLAN = ["plan", "-f", "examples/point-to-point.yaml", "-o", "json"]
FULL = "trackbed: cannot write to standard output: No space left on device\n"


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("furnished")
    furnish(folder)
    return folder


def into_full_disk(words: list[str], folder: Path) -> Ended:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        return into(words, folder, full)
    finally:
        os.close(full)


def into_closed_pipe(words: list[str], folder: Path) -> Ended:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return into(words, folder, writing)
    finally:
        os.close(writing)


@pytest.mark.parametrize("invocation", READ)
def test_a_full_disk_and_a_reader_that_has_gone_end_every_command_quietly(furnished: Path, invocation: str) -> None:
    words = shlex.split(invocation)
    usual = exit_codes()[invocation]
    full, gone = into_full_disk(words, furnished), into_closed_pipe(words, furnished)
    assert "Traceback" not in full.output + gone.output
    assert "Exception" not in full.output + gone.output
    if full.output.endswith(FULL):
        assert (full.status, gone.status) == (2, 128 + signal.SIGPIPE)
        assert gone.output == full.output.removesuffix(FULL)
    else:  # it prints errors only
        assert (full.status, gone.status) == (usual, usual)


@pytest.mark.parametrize(
    "words", [["--version"], ["--help"], ["plan", "--help"], ["servers"], ["lint", "twice.yaml"], PLAN], ids=" ".join
)
def test_what_prints_a_result_says_that_it_could_not(furnished: Path, words: list[str]) -> None:
    assert into_full_disk(words, furnished).output.endswith(FULL)


def in_shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program = f'trackbed() {{ "{sys.executable}" -m trackbed "$@"; }}; set -o pipefail; {script}'
    return subprocess.run(["bash", "-c", program], cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_head_ends_a_long_plan_without_a_word(furnished: Path) -> None:
    done = in_shell(f"trackbed {shlex.join(PLAN)} 2>/dev/null | head -n 1", furnished)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGPIPE, "{\n", "")


@pytest.mark.parametrize(
    ("script", "status", "errors"),
    [
        ("trackbed servers >&-", 2, "trackbed: cannot write to standard output: Bad file descriptor\n"),
        ("trackbed servers >&- 2>&-", 2, ""),
        ("trackbed no-such 2>/dev/full", 2, ""),
        ("trackbed servers >/dev/full 2>/dev/full", 2, ""),
        ("trackbed servers 2>&- >/dev/null", 0, ""),
        (
            "trackbed validate fabric.yaml 2>&1 >/dev/null | tail -1 >&2; exit ${PIPESTATUS[0]}",
            2,
            "Error: Got unexpected extra argument (fabric.yaml); the Fabric is named with -f FILE\n",
        ),
    ],
)
def test_closed_and_full_streams_end_in_a_status(furnished: Path, script: str, status: int, errors: str) -> None:
    done = in_shell(script, furnished)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", errors)


def interrupt(folder: Path, number: signal.Signals, *, ignored: bool = False) -> tuple[int, str]:
    """Send a signal to a command that waits for its input, which comes afterwards; its status and errors."""
    pipe = folder / "fabric.yaml"
    os.mkfifo(pipe)
    setting = f"--{'ignore' if ignored else 'default'}-signal={number.name.removeprefix('SIG')}"
    program = ["env", setting, sys.executable, "-m", "trackbed", "plan"]
    with (
        subprocess.Popen(program, cwd=folder, stderr=subprocess.PIPE, text=True) as process,
        pipe.open("wb") as stream,  # opened by both: it is in the middle of the command
    ):
        process.send_signal(number)
        if ignored:
            stream.write((EXAMPLES / "point-to-point.yaml").read_bytes())
            stream.close()
        for _ in range(12):  # a signal just before read(2) is seen when that returns; people press the keys again
            with suppress(subprocess.TimeoutExpired):
                _, errors = process.communicate(timeout=5)
                return process.returncode, errors.lstrip("\n")
            process.send_signal(number)
        raise AssertionError(f"{number.name} does not end the command")


@pytest.mark.parametrize(
    ("number", "errors"),
    [
        (signal.SIGINT, "interrupted\n"),
        (signal.SIGTERM, "interrupted by SIGTERM\n"),
        (signal.SIGHUP, "interrupted by SIGHUP\n"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_signal_ends_a_command_with_its_status(tmp_path: Path, number: signal.Signals, errors: str) -> None:
    assert interrupt(tmp_path, number) == (128 + number, errors)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_is_ignored_stays_so(tmp_path: Path, number: signal.Signals) -> None:
    assert interrupt(tmp_path, number, ignored=True)[0] == 0


@pytest.mark.parametrize("json_words", [["-o", "json"], ["-ojson"], ["--output", "json"], ["--output=json"]])
def test_wrong_use_is_json_where_output_is_json(json_words: list[str]) -> None:
    argv = [sys.executable, "-m", "trackbed", "plan", *json_words, "--no-such-option"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    error = json.loads(done.stderr)["error"]
    assert (done.returncode, done.stdout, error["exitStatus"]) == (2, "", 2)
    assert "--no-such-option" in error["message"]
