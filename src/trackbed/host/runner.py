"""Programs on a machine. No other module of `host`, and none that is sent to hosts, starts programs.

A missing program is `Absent`, which is not a failure: the caller advises the user what to run.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    import subprocess

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Folders in which programs are looked up, regardless of the caller's PATH."""

TIMEOUT_SECONDS = 300
"""Limit of a program that only reads."""
CHANGE_SECONDS = 3600
"""Limit of a program that changes the host: a package may build its modules for each kernel (DKMS)."""
_END_SECONDS = 10
"""Time that programs have to end after SIGTERM, before SIGKILL."""
_LOOK_SECONDS = 0.05


class ProgramResult(NamedTuple):
    """The exit status of a program (124: timeout, 126: not startable) and its combined stdout and stderr."""

    status: int
    output: str


class Runner(Protocol):
    """Starts programs on one machine."""

    def has_program(self, program: str) -> bool:
        """Return whether the program exists."""

    def run(self, argv: Sequence[str]) -> ProgramResult:
        """Run a program until it exits. `has_program` must have returned true."""


class Local:
    """Runs programs on this host."""

    def __init__(self, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        """Set the time limit of each program."""
        self._timeout_seconds = timeout_seconds

    def has_program(self, program: str) -> bool:
        """Return whether the program is in one of the folders of PATH."""
        return any(os.access(f"{folder}/{program}", os.X_OK) for folder in PATH.split(":"))

    def run(self, argv: Sequence[str]) -> ProgramResult:
        """Run a program without input, in the C locale, within the time limit.

        At the limit, and where the caller is interrupted, what the program has started ends with it: an undo must not
        meet an installation that goes on.
        """
        import subprocess  # noqa: PLC0415 - it takes a tenth of a run that starts no program

        environment = {"PATH": PATH, "LC_ALL": "C", "HOME": os.environ.get("HOME", "/")}
        try:
            process = subprocess.Popen(  # noqa: S603 - the commands are Trackbed's own, argument by argument, no shell
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            return ProgramResult(126, f"{argv[0]} cannot be started: {error.strerror}")
        try:
            output, _ = process.communicate(timeout=self._timeout_seconds)
        except subprocess.TimeoutExpired:
            output = _end_session(process)
            limit = f"{argv[0]} took more than {self._timeout_seconds:.0f} s"
            return ProgramResult(124, f"{limit}: {output.decode(errors='replace')}")
        except BaseException:
            _end_session(process)
            raise
        return ProgramResult(process.returncode, output.decode(errors="replace"))


def _end_session(process: subprocess.Popen[bytes]) -> bytes:
    """End a program and all that it has started in its session; return its output."""
    import subprocess  # noqa: PLC0415 - as in Local.run

    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        deadline = time.monotonic() + _END_SECONDS
        while _has_processes(process) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
    try:
        return process.communicate(timeout=_LOOK_SECONDS)[0]
    except subprocess.TimeoutExpired as error:  # a process that has left the session has the other end
        return error.output or b""


def _has_processes(process: subprocess.Popen[bytes]) -> bool:
    """Return whether the process group of a program has processes; zombies of a lazy init count."""
    process.poll()  # its own process is no zombie any more
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


_PR_SET_PDEATHSIG = 1
"""include/uapi/linux/prctl.h."""
_NICENESS = 10


def start_program(argv: Sequence[str], path: str = PATH) -> subprocess.Popen[bytes]:
    """Start a program of this host beside others, with pipes for both outputs, in a session of its own.

    It yields to the host's own services, as it may poll without pause (perftest). The kernel kills it when the thread
    that started it dies, so that nothing outlives a caller that was killed. Raises FileNotFoundError if no folder of
    `path` has the program, other OSErrors if it cannot be started.
    """
    import ctypes  # noqa: PLC0415 - as for subprocess
    import subprocess  # noqa: PLC0415 - as in Local.run

    folders = [folder for folder in path.split(":") if os.access(f"{folder}/{argv[0]}", os.X_OK)]
    if not folders:
        raise FileNotFoundError(argv[0])
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def yield_and_die_with_parent() -> None:
        os.nice(_NICENESS)
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before
            os._exit(1)

    return subprocess.Popen(  # noqa: S603 - as in Local.run
        [f"{folders[0]}/{argv[0]}", *argv[1:]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": path, "LC_ALL": "C", "HOME": os.environ.get("HOME", "/")},
        start_new_session=True,
        preexec_fn=yield_and_die_with_parent,  # noqa: PLW1509 - callers have one thread
    )
