"""Processes of a lab: start, liveness, logs and stop; and programs that run to completion.

A process is identified by PID and start time (proc(5), field 22), because PIDs are reused.
"""

import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

STOP_SECONDS = 10.0
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_ZOMBIE = "Z"
_START_TIME = 19  # proc(5): field 22, counted from the one after the program's name


class LabProcess(msgspec.Struct, frozen=True):
    """A process that was started."""

    name: str
    pid: int
    started: int
    """Start time in clock ticks since boot."""
    log: str

    @property
    def is_alive(self) -> bool:
        """Whether the process is still running; a child that has ended is reaped."""
        state, started = _read_state(self.pid)
        if started != self.started or not started:
            return False
        if state != _ZOMBIE:
            return True
        try:
            return os.waitpid(self.pid, os.WNOHANG) == (0, 0)  # threads may outlive the first one of a process
        except ChildProcessError:
            return False

    def read_log_end(self, lines: int = 3) -> str:
        """Return the last lines of its log."""
        text = Path(self.log).read_text(errors="replace").strip() if Path(self.log).exists() else ""
        return "\n".join(text.splitlines()[-lines:]) or "its log is empty"


@contextmanager
def defer_signals() -> Iterator[None]:
    """Let the signals that stop a command take effect at the end of the block: what it starts, it also records.

    It is for the main thread, the only one that receives signals; in others it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    handlers = {number: signal.signal(number, lambda number, _: received.append(number)) for number in _STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for first in received[:1]:
            os.kill(os.getpid(), first)


def start_process(name: str, argv: Sequence[str], folder: Path, *, detached: bool) -> LabProcess:
    """Start a program in a new session, with its output in `folder`/NAME.log.

    Unless it is detached, the kernel kills it when this process ends.
    """
    log = folder / f"{name}.log"
    with log.open("ab") as stream:
        child = subprocess.Popen(  # noqa: S603 - programs of the lab
            argv,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
            preexec_fn=None if detached else die_with_parent,  # noqa: PLW1509 - one prctl call, which takes no lock
        )
    child.returncode = 0  # keeps Popen from warning about a running child, which LabProcess reaps
    return LabProcess(name, child.pid, _read_state(child.pid)[1], str(log))


def stop_processes(processes: Sequence[LabProcess]) -> None:
    """Stop processes in reverse order: SIGTERM, and SIGKILL for one that has not ended after STOP_SECONDS."""
    for process in reversed(processes):
        for number in (signal.SIGTERM, signal.SIGKILL):
            _send_signal(process, number)
            if _wait_for_end(process):
                break


def kill_process(process: LabProcess) -> None:
    """Kill a process with SIGKILL and wait for its end."""
    _send_signal(process, signal.SIGKILL)
    _wait_for_end(process)


def _send_signal(process: LabProcess, signal_number: int) -> None:
    if process.is_alive:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal_number)


def _wait_for_end(process: LabProcess) -> bool:
    """Return whether the process ends within STOP_SECONDS."""
    deadline = time.monotonic() + STOP_SECONDS
    while process.is_alive:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _read_state(pid: int) -> tuple[str, int]:
    """Return a process's state (proc(5), field 3) and start time; "" and 0 if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "", 0
    fields = stat.rpartition(")")[2].split()
    return fields[0], int(fields[_START_TIME])


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends (prctl(2), PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def run_program(
    argv: Sequence[str],
    seconds: float,
    to_error: Callable[[str], Exception],
    folder: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> "subprocess.CompletedProcess[str]":
    """Run a program in a folder, with additional environment variables and without input.

    Raises the exception of `to_error` if the program cannot be started or takes longer than `seconds`; a
    nonzero exit status raises nothing.
    """
    try:
        return subprocess.run(  # noqa: S603 - the lab's own programs and arguments
            argv,
            cwd=folder,
            env={**os.environ, **(variables or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise to_error(f"{argv[0]}: {error}") from error
