"""Kinds memory lock and module: what a running process may, and what the kernel has loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trackbed.host.change import NOTHING, Change, Skipped, awaiting, refused
from trackbed.host.machine import Absent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.host.kinds.view import View
    from trackbed.host.machine import Machine
    from trackbed.host.setting import Memlock, Module, Setting


def memlock(setting: Setting, want: Memlock, view: View) -> Change | Skipped | None:
    """A process that may lock less memory: its restart brings the limit, or the next boot once its file is there."""
    machine, what = view.state.machine, f"locked memory of {want.process}"
    if machine.shared:
        return Skipped(setting, what, machine.shared)
    found = dict(_limits(machine, want.process))
    if not found:
        return Skipped(setting, what, f"no {want.process} runs here")
    less = {number: limit for number, limit in found.items() if limit != "unlimited"}
    if not less:
        return None
    have = f"{next(iter(less.values()))} bytes"
    restart = f"systemctl restart {want.process} (drain the node first)"
    keeps = "a running process keeps the limit it started with"
    if machine.path(want.by).exists() and all(_is_of(machine, number, want.by) for number in less):
        return awaiting(setting, what, have, "unlimited", f"{restart}, or reboot this host: {keeps}")
    return refused(setting, what, have, "unlimited", f"{restart}: {keeps}")


def _is_of(machine: Machine, number: str, drop_in: str) -> bool:
    """Whether a process is of the unit that a drop-in is for: another one's would not have it after a boot either."""
    unit = Path(drop_in).parent.name.removesuffix(".d")
    told = machine.read(f"/proc/{number}/cgroup")
    return isinstance(told, str) and unit in {part for line in told.splitlines() for part in line.split("/")}


def module(setting: Setting, want: Module, view: View) -> Change | Skipped | None:
    """A module that is neither loaded nor built in."""
    machine, what = view.state.machine, f"kernel module {want.name}"
    if machine.shared:
        return Skipped(setting, what, machine.shared)
    if not machine.path("/sys/module").is_dir():
        return Skipped(setting, what, "/sys/module is not there")
    if machine.path(f"/sys/module/{want.name}").is_dir():
        return None
    advice = f"modprobe {want.name}; where that fails, install the NIC's driver for this kernel (dkms status)"
    return refused(setting, what, NOTHING, "loaded", advice)


def _limits(machine: Machine, process: str) -> Iterator[tuple[str, str]]:
    """Number and soft limit (bytes, or `unlimited`) of each process of this name (proc_pid_limits(5))."""
    for place in machine.path("/proc").glob("[0-9]*/comm"):
        number = place.parent.name
        if machine.read(f"/proc/{number}/comm") != process:
            continue
        text = machine.read(f"/proc/{number}/limits")
        lines = [] if isinstance(text, Absent) or not isinstance(text, str) else text.splitlines()
        yield from ((number, line.split()[3]) for line in lines if line.startswith("Max locked memory"))
