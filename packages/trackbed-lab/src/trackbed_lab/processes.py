"""Programs started for a lab: their logs, that they live, and that exactly they are stopped.

A process is known by its pid and its start time (proc(5), field 22): a pid alone may be somebody else's by now.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

STOP_SECONDS = 10.0
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_START_TIME = 19  # proc(5): field 22, counted from the one after the program's name


class LabProcess(msgspec.Struct, frozen=True):
    """One program that was started."""

    name: str
    pid: int
    started: int
    """Clock ticks from boot to its start; 0 if it had ended before anybody looked."""
    log: str

    @property
    def is_alive(self) -> bool:
        """Whether it still runs, and is not another one with its pid."""
        with suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)
        return self.started > 0 and _started(self.pid) == self.started

    def read_log_end(self, lines: int = 3) -> str:
        """The end of its log."""
        said = Path(self.log).read_text(errors="replace").strip() if Path(self.log).exists() else ""
        return "\n".join(said.splitlines()[-lines:]) or "it said nothing"


def start_process(name: str, argv: Sequence[str], folder: Path, *, detached: bool) -> LabProcess:
    """Start a program in a session of its own, its output in `folder`/NAME.log; unless it stays, it dies with us."""
    log = folder / f"{name}.log"
    with log.open("ab") as stream:
        child = subprocess.Popen(  # noqa: S603 - programs that were built here
            argv,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
            preexec_fn=None if detached else die_with_parent,  # noqa: PLW1509 - one prctl call, which takes no lock
        )
    child.returncode = 0  # ours to wait for from here on: Popen's own bookkeeping would warn about a child that lives
    return LabProcess(name, child.pid, _started(child.pid), str(log))


def stop_processes(processes: Sequence[LabProcess]) -> None:
    """End processes, last started first: asked, and after some seconds made to."""
    for one in reversed(processes):
        for number in (signal.SIGTERM, signal.SIGKILL):
            _end(one, number)
            if _is_gone(one):
                break


def _end(one: LabProcess, number: int) -> None:
    if one.is_alive:
        with suppress(ProcessLookupError):
            os.kill(one.pid, number)


def _is_gone(one: LabProcess) -> bool:
    """Whether it ends within some seconds."""
    deadline = time.monotonic() + STOP_SECONDS
    while one.is_alive:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _started(pid: int) -> int:
    """Its start time, 0 where there is no such process or only what a parent has yet to ask for."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    fields = stat.rpartition(")")[2].split()
    return 0 if fields[0] == "Z" else int(fields[_START_TIME])


def die_with_parent() -> None:
    """Have the kernel kill this process once its parent ends (prctl(2), PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
