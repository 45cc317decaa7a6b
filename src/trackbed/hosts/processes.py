"""Kinds memory lock and module: what a running process may, and what the kernel has loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.hosts.change import NOTHING, Change, Skipped, awaiting, refused
from trackbed.hosts.machine import Absent

if TYPE_CHECKING:
    from trackbed.chain.setting import Memlock, Module, Setting
    from trackbed.hosts.machine import Machine
    from trackbed.hosts.view import View


def memlock(setting: Setting, want: Memlock, view: View) -> Change | Skipped | None:
    """A process that may lock less memory: its restart brings the limit, or the next boot once its file is there."""
    machine, what = view.state.machine, f"locked memory of {want.process}"
    if machine.shared:
        return Skipped(setting, what, machine.shared)
    found = _limits(machine, want.process)
    if not found:
        return Skipped(setting, what, f"no {want.process} runs here")
    less = [limit for limit in found if limit != "unlimited"]
    if not less:
        return None
    restart = f"systemctl restart {want.process} (drain the node first)"
    keeps = "a running process keeps the limit it started with"
    if machine.path(want.by).exists():
        return awaiting(setting, what, f"{less[0]} bytes", "unlimited", f"{restart}, or reboot this host: {keeps}")
    return refused(setting, what, f"{less[0]} bytes", "unlimited", f"{restart}: {keeps}")


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


def _limits(machine: Machine, process: str) -> list[str]:
    """The soft limit (bytes, or `unlimited`) of each process of this name (proc_pid_limits(5))."""
    found = []
    for place in machine.path("/proc").glob("[0-9]*/comm"):
        number = place.parent.name
        if machine.read(f"/proc/{number}/comm") != process:
            continue
        text = machine.read(f"/proc/{number}/limits")
        lines = [] if isinstance(text, Absent) or not isinstance(text, str) else text.splitlines()
        found += [line.split()[3] for line in lines if line.startswith("Max locked memory")]
    return found
