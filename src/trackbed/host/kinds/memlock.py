"""Kind memory lock: how much memory the processes of a service may lock."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from trackbed.host.change import Change, Skipped, advise, await_boot
from trackbed.host.kinds.kind import Kind
from trackbed.host.kinds.processes import find_processes, read_memlock
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting


class Want(NamedTuple):
    """Processes called `process` may lock memory without limit (RLIMIT_MEMLOCK, setrlimit(2))."""

    process: str
    by: str
    """The file that gives it to processes started later."""

    def __str__(self) -> str:
        return f"locked memory of {self.process}"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of a process with a limit: its restart lifts it, or the next boot where its file is there."""
    machine, subject = view.machine, str(want)
    if machine.shared_reason:
        return Skipped(setting, subject, machine.shared_reason)
    limits = {pid: read_memlock(machine, pid) for pid in find_processes(machine, want.process)}
    limits = {pid: limit for pid, limit in limits.items() if limit}
    if not limits:
        return Skipped(setting, subject, f"no {want.process} runs here")
    lower = {pid: limit for pid, limit in limits.items() if limit != "unlimited"}
    if not lower:
        return None
    have = f"{next(iter(lower.values()))} bytes"
    restart = f"systemctl restart {want.process} (drain the node first)"
    keeps = "a running process keeps the limit it started with"
    if machine.locate(want.by).exists() and all(_is_of(machine, pid, want.by) for pid in lower):
        return await_boot(setting, subject, have, "unlimited", f"{restart}, or reboot this host: {keeps}")
    return advise(setting, subject, have, "unlimited", f"{restart}: {keeps}")


def _is_of(machine: Machine, pid: str, drop_in: str) -> bool:
    """Return whether a process is of the unit that a drop-in is for: other units keep their limit after a boot."""
    unit = Path(drop_in).parent.name.removesuffix(".d")
    groups = machine.read(f"/proc/{pid}/cgroup")
    return isinstance(groups, str) and unit in {part for line in groups.splitlines() for part in line.split("/")}


KIND = Kind("memlock", (Want,), compare)
