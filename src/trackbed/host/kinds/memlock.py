"""Kind memory lock: the processes of a service may lock memory without limit."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from trackbed.host.change import Change, Skipped, build_manual_change, build_reboot_change
from trackbed.host.kinds.kind import Kind
from trackbed.host.kinds.processes import find_processes, read_memlock_limit
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting


class Want(NamedTuple):
    """Processes called `process` may lock memory without limit (RLIMIT_MEMLOCK, setrlimit(2))."""

    process: str
    drop_ins: tuple[str, ...]
    """Paths of the drop-ins that remove the limit for processes of their units that start later."""

    def __str__(self) -> str:
        return f"locked memory of {self.process}"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return advice for processes with a limit: a restart, or the next boot if the drop-in exists."""
    machine, subject = view.machine, str(want)
    if machine.shared_reason:
        return Skipped(setting, subject, machine.shared_reason)
    limits = {pid: read_memlock_limit(machine, pid) for pid in find_processes(machine, want.process)}
    limits = {pid: limit for pid, limit in limits.items() if limit}
    if not limits:
        return Skipped(setting, subject, f"no {want.process} runs here")
    lower = {pid: limit for pid, limit in limits.items() if limit != "unlimited"}
    if not lower:
        return None
    have = f"{next(iter(lower.values()))} bytes"
    drop_ins = {_find_drop_in(machine, pid, want.drop_ins) for pid in lower}
    units = [_get_unit(path) for path in sorted(drop_ins) if path] or [want.process]
    restart = f"systemctl restart {' '.join(units)} (drain the node first)"
    keeps = "a running process keeps the limit it started with"
    if all(path and machine.locate(path).exists() for path in drop_ins):
        return build_reboot_change(setting, subject, have, "unlimited", f"{restart}, or reboot this host: {keeps}")
    return build_manual_change(setting, subject, have, "unlimited", f"{restart}: {keeps}")


def _find_drop_in(machine: Machine, pid: str, drop_ins: tuple[str, ...]) -> str:
    """Return the drop-in of the unit that a process belongs to; "" for other units, which keep the limit at a boot."""
    groups = machine.read(f"/proc/{pid}/cgroup")
    parts = {part for line in groups.splitlines() for part in line.split("/")} if isinstance(groups, str) else set()
    return next((path for path in drop_ins if f"{_get_unit(path)}.service" in parts), "")


def _get_unit(drop_in: str) -> str:
    return Path(drop_in).parent.name[: -len(".service.d")]


KIND = Kind("memlock", (Want,), compare)
