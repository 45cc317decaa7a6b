"""Invocations in forks of this process, which has imported everything: hundreds of them take seconds.

Each is run as by a person's shell: with a terminal, a pipe or a file for its output.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import pty
import sys
import termios
import traceback
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple, NoReturn

import trackbed_lab

import trackbed
from trackbed.cli.main import main

PIPE_BYTES = 65536


class Ended(NamedTuple):
    """How an invocation ended: its status as a shell gets it, and all that it printed."""

    status: int
    output: str


def on_terminal(words: list[str], folder: Path, columns: int, variables: Mapping[str, str] | None = None) -> Ended:
    """Run an invocation on a terminal of that width."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    return _gather(words, folder, (ours, theirs), {"TERM": "xterm-256color", **(variables or {})})


def in_pipe(words: list[str], folder: Path, variables: Mapping[str, str] | None = None) -> Ended:
    """Run an invocation with its output in a pipe that is read to its end."""
    return _gather(words, folder, os.pipe(), variables or {})


def into(words: list[str], folder: Path, output: int) -> Ended:
    """Run an invocation with its standard output in `output`; return what it printed as errors."""
    ours, theirs = os.pipe()
    pid = _start(words, folder, (output, theirs), {})
    os.close(theirs)
    return _read_to_end(pid, ours)


def _gather(words: list[str], folder: Path, ends: tuple[int, int], variables: Mapping[str, str]) -> Ended:
    ours, theirs = ends
    pid = _start(words, folder, (theirs, theirs), variables)
    os.close(theirs)
    return _read_to_end(pid, ours)


def _read_to_end(pid: int, descriptor: int) -> Ended:
    content = b""
    try:
        while part := os.read(descriptor, PIPE_BYTES):
            content += part
    except OSError:  # the other end of a terminal is closed
        pass
    os.close(descriptor)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return Ended(status, content.decode().replace("\r\n", "\n"))


@cache
def _import_all() -> None:
    """Import all modules: commands import theirs when they run, and each fork would do so again."""
    for package in (trackbed, trackbed_lab):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


def _start(words: list[str], folder: Path, outputs: tuple[int, int], variables: Mapping[str, str]) -> int:
    _import_all()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        try:
            _become(words, folder, outputs, variables)
        except BaseException:  # noqa: BLE001 - nothing of this fork may go on as the test
            traceback.print_exc()
        finally:
            os._exit(70)
    return pid


def _become(words: list[str], folder: Path, outputs: tuple[int, int], variables: Mapping[str, str]) -> NoReturn:
    """Become `trackbed WORDS`."""
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (outputs[0], 1), (outputs[1], 2)):
        os.dup2(source, target)
    os.closerange(3, 1024)  # so that the ends of pipes are open once
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - until the end
        for number, mode in ((0, "r"), (1, "w"), (2, "w"))
    )
    os.chdir(folder)
    os.environ.clear()
    os.environ.update({"PATH": "/usr/bin:/bin", "HOME": str(folder), "XDG_STATE_HOME": str(folder), **variables})
    sys.argv = ["trackbed", *words]
    status = 0
    try:
        main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    os._exit(status)
