"""Processes of the machine, as /proc shows them."""

from __future__ import annotations

import os
from collections.abc import Iterator

from trackbed.host.machine import Machine


def find_processes(machine: Machine, name: str) -> Iterator[str]:
    """Yield the PIDs of the processes of a name."""
    for place in machine.locate("/proc").glob("[0-9]*/comm"):
        if machine.read(f"/proc/{place.parent.name}/comm") == name:
            yield place.parent.name


def read_start(machine: Machine, pid: str) -> float | None:
    """Return when a process was started, in seconds since 1970 (proc_pid_stat(5) field 22, proc_stat(5) btime)."""
    fields, boot = machine.read(f"/proc/{pid}/stat"), machine.read("/proc/stat")
    if not isinstance(fields, str) or not isinstance(boot, str):
        return None
    since = next((line.split()[1] for line in boot.splitlines() if line.startswith("btime ")), None)
    ticks = fields.rpartition(")")[2].split()[19:20]
    return int(since) + int(ticks[0]) / os.sysconf("SC_CLK_TCK") if since and ticks else None


def read_memlock(machine: Machine, pid: str) -> str | None:
    """Return the soft limit of locked memory, in bytes or `unlimited` (proc_pid_limits(5))."""
    text = machine.read(f"/proc/{pid}/limits")
    lines = text.splitlines() if isinstance(text, str) else []
    return next((line.split()[3] for line in lines if line.startswith("Max locked memory")), None)
