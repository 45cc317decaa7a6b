"""Processes and their resource limits, from /proc; the checks of several steps use them."""

import re
from typing import NamedTuple

from trackbed.host.snapshot.snapshot import Snapshot, Wanted

READS = Wanted(files=("/proc/[0-9]*/comm", "/proc/[0-9]*/limits"))

DAEMONS = frozenset(
    (
        *("containerd", "crio", "dockerd", "kubelet", "systemd-network"),
        *("slurmd", "slurmstepd", "pbs_mom", "orted", "prted", "sge_execd"),
    )
)
"""Names of the processes that checks look for."""

UNLIMITED = "unlimited"
_COMM = re.compile(r"/proc/(\d{1,10})/comm")
_NUMBER = re.compile(r"[0-9]{1,20}")
_COLUMN_GAP = re.compile(r"\s{2,}")


class ProcessLimits(NamedTuple):
    """A process: its name (15 bytes at most, proc_pid_comm(5)), its PID, and its soft limits by name."""

    name: str
    pid: int
    limits: dict[str, str]


def find_processes(host: Snapshot, *names: str) -> list[ProcessLimits]:
    """Return the processes with these names, sorted by PID."""
    pids = sorted(int(match[1]) for match in map(_COMM.fullmatch, (*host.files, *host.unreadable)) if match)
    named = [(pid, host.read_text(f"/proc/{pid}/comm") or "") for pid in pids]
    return [
        ProcessLimits(name, pid, _parse_limits(host.read_text(f"/proc/{pid}/limits") or ""))
        for pid, name in named
        if name in names
    ]


def _parse_limits(text: str) -> dict[str, str]:
    """Return the soft limits by name from proc_pid_limits(5), whose columns are at least two spaces apart."""
    rows = (_COLUMN_GAP.split(line) for line in text.splitlines()[1:])
    return {row[0]: row[1] for row in rows if len(row) > 1}


def is_limit_below(limit: str | None, minimum: int) -> bool:
    """Return whether a limit is known and below the minimum."""
    return limit is not None and _NUMBER.fullmatch(limit) is not None and int(limit) < minimum
