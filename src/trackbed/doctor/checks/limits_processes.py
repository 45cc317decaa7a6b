"""Resource limits of processes, from /proc, for the checks of the steps limits, routing and runtime."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from trackbed.host.snapshot.snapshot import Snapshot, Wanted

READS = Wanted(files=("/proc/[0-9]*/comm", "/proc/[0-9]*/limits"))

UNLIMITED = "unlimited"
_COMM = re.compile(r"/proc/(\d+)/comm")
_COLUMN_GAP = re.compile(r"\s{2,}")


class ProcessLimits(NamedTuple):
    """A process with its name (15 bytes at most, proc_pid_comm(5)), its PID, and its soft limits by name."""

    name: str
    pid: int
    limits: dict[str, str]


def find_processes(host: Snapshot, *names: str) -> list[ProcessLimits]:
    """Return the processes with these names, sorted by PID."""
    return sorted(_iter_processes(host, names), key=lambda process: process.pid)


def _iter_processes(host: Snapshot, names: tuple[str, ...]) -> Iterator[ProcessLimits]:
    for path in host.files:
        match = _COMM.fullmatch(path)
        name = host.read_text(path) if match else None
        if match and name in names:
            yield ProcessLimits(name, int(match[1]), _parse_limits(host.read_text(f"/proc/{match[1]}/limits") or ""))


def _parse_limits(text: str) -> dict[str, str]:
    """Return the soft limits of proc_pid_limits(5), whose columns are at least two blanks apart."""
    rows = (_COLUMN_GAP.split(line) for line in text.splitlines()[1:])
    return {row[0]: row[1] for row in rows if len(row) > 1}


def is_below(limit: str | None, minimum: int) -> bool:
    """Return whether a limit is known and lower than the minimum."""
    return limit is not None and limit.isdigit() and int(limit) < minimum
