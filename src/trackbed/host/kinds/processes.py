"""Processes of the machine, as /proc shows them."""

from __future__ import annotations

import os
from collections.abc import Iterator

from trackbed.host.machine import Machine


def find_processes(machine: Machine, name: str) -> Iterator[str]:
    """Yield the PIDs of all processes of root with this name: others may call themselves so (prctl(2), PR_SET_NAME)."""
    for place in machine.locate("/proc").glob("[0-9]*/comm"):
        pid = place.parent.name
        if machine.read(f"/proc/{pid}/comm") == name and _is_roots(machine, pid):
            yield pid


def _is_roots(machine: Machine, pid: str) -> bool:
    """Return whether a process is root's in this user namespace, or unknown (proc_pid_status(5), Uid)."""
    users = [line.split()[2:3] for line in machine.read_lines(f"/proc/{pid}/status") if line.startswith("Uid:")]
    return users in ([], [["0"]])


def read_start_time(machine: Machine, pid: str) -> float | None:
    """Return the start time in seconds since 1970; None if unknown (proc_pid_stat(5), proc_stat(5) btime)."""
    boot = read_boot_time(machine)
    ticks = "".join(machine.read_lines(f"/proc/{pid}/stat")).rpartition(")")[2].split()[19:20]  # field 22
    return boot + int(ticks[0]) / os.sysconf("SC_CLK_TCK") if boot and ticks else None


def read_boot_time(machine: Machine) -> int | None:
    """Return the time of the boot in seconds since 1970; None if unknown (proc_stat(5), btime)."""
    lines = machine.read_lines("/proc/stat")
    return next((int(line.split()[1]) for line in lines if line.startswith("btime ")), None)


def read_memlock_limit(machine: Machine, pid: str) -> str | None:
    """Return the soft limit of locked memory, in bytes or `unlimited`; None if unknown (proc_pid_limits(5))."""
    lines = machine.read_lines(f"/proc/{pid}/limits")
    return next((line.split()[3] for line in lines if line.startswith("Max locked memory")), None)
