"""A program timed from exec to exit with little overhead.

posix_spawn with memory files as stdin, stdout and stderr: no pipe to drain, so nothing of Python runs while the
program does, and ten can run at once.
"""

import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

LIMIT_S: Final = 60


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of a program.

    `rss_kib` is the largest resident set of it and its waited-for children, and never below this process's own:
    Linux counts from the fork (getrusage(2)).
    """

    code: int
    ms: float
    stdout: bytes
    stderr: bytes
    rss_kib: int


def call(argv: Sequence[str], env: Mapping[str, str], stdin: bytes = b"", limit_s: float = LIMIT_S) -> Exit:
    """Run `argv` and wait for its end; after `limit_s` seconds it is killed, and the code is -9."""
    files = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
    try:
        os.pwrite(files[0], stdin, 0)
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(files)]
        start = time.perf_counter_ns()
        pid = os.posix_spawn(argv[0], tuple(argv), env, file_actions=actions)
        status, rss = _wait(pid, limit_s)
        ms = (time.perf_counter_ns() - start) / 1e6
        return Exit(os.waitstatus_to_exitcode(status), ms, _content(files[1]), _content(files[2]), rss)
    finally:
        for fd in files:
            os.close(fd)


def measure_median_ms(argv: Sequence[str], env: Mapping[str, str], stdin: bytes = b"", runs: int = 20) -> float:
    """Return the median milliseconds of `runs` runs after a first one that warms the page cache.

    Raises RuntimeError if a run fails.
    """
    ends = [call(argv, env, stdin) for _ in range(runs + 1)][1:]
    for end in ends:
        if end.code != 0:
            message = f"{' '.join(argv)} ended with {end.code}: {(end.stderr or end.stdout).decode(errors='replace')}"
            raise RuntimeError(message)
    return median(end.ms for end in ends)


def _wait(pid: int, limit_s: float) -> tuple[int, int]:
    fd = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        if not poll.poll(limit_s * 1000):
            signal.pidfd_send_signal(fd, signal.SIGKILL)
    finally:
        os.close(fd)
    _, status, usage = os.wait4(pid, 0)
    return status, usage.ru_maxrss


def _content(fd: int) -> bytes:
    return os.pread(fd, os.fstat(fd).st_size, 0)
