"""Kind module: a kernel module is loaded or built in.

A missing module is loaded with modprobe(8) if the running kernel has it. Undo leaves it loaded, because by then other
programs may use it; after the next boot it is loaded only if something else asks for it.
"""

from __future__ import annotations

from typing import NamedTuple

from trackbed.host.change import ABSENT_VALUE, Change, Run, Skipped, build_change, build_manual_change
from trackbed.host.kinds.kind import Kind, keep_pods
from trackbed.host.kinds.view import View
from trackbed.host.machine import Absent, Machine
from trackbed.host.setting import Setting


class Want(NamedTuple):
    """A kernel module is loaded (or built in)."""

    name: str

    def __str__(self) -> str:
        return f"kernel module {self.name}"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the load of a module that is neither loaded nor built in, or advice if this kernel does not have it."""
    machine, subject = view.machine, str(want)
    if machine.shared_reason or not machine.locate("/sys/module").is_dir():
        return Skipped(setting, subject, machine.shared_reason or "/sys/module is not there")
    if machine.locate(f"/sys/module/{want.name}").is_dir() or _is_built_in(machine, want.name):
        return None
    if _is_loadable(machine, want.name):
        return build_change(setting, subject, ABSENT_VALUE, "loaded", (Run(("modprobe", want.name)),))
    advice = f"modprobe {want.name}; where that fails, install the NIC's driver for this kernel (dkms status)"
    return build_manual_change(setting, subject, ABSENT_VALUE, "loaded", advice)


def _is_built_in(machine: Machine, name: str) -> bool:
    """Return whether a module is part of the kernel; without parameters it has no folder in /sys/module."""
    lines = machine.read_lines(f"/lib/modules/{machine.read('/proc/sys/kernel/osrelease')}/modules.builtin")
    return any(line.rpartition("/")[2].replace("-", "_") == f"{name}.ko" for line in lines)


def _is_loadable(machine: Machine, name: str) -> bool:
    """Return whether modprobe finds the module and its dependencies for the running kernel."""
    dry_run = machine.run(("modprobe", "--dry-run", "--quiet", name))
    return not isinstance(dry_run, Absent) and dry_run.status == 0


KIND = Kind("module", (Want,), compare, disrupts_pods=keep_pods)
