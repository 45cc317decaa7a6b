"""Kind huge pages: the kernel has reserved the planned number at boot, by kernel arguments."""

from __future__ import annotations

from typing import NamedTuple

from trackbed.host.change import Change, Skipped, build_manual_change, build_reboot_change
from trackbed.host.kinds.arguments import is_fulfilled, split_cmdline
from trackbed.host.kinds.kind import Kind
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting

SIZES = {2 << 10: "2M", 1 << 20: "1G"}
"""Size in KiB -> size of huge pages as a kernel argument."""


class Want(NamedTuple):
    """The kernel holds at least `count` huge pages of `size_kib` KiB."""

    size_kib: int
    count: int  # type: ignore[assignment] # the field hides a method of tuple

    def __str__(self) -> str:
        return f"huge pages of {self.size_kib} KiB"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of huge pages that the kernel could not reserve, or will reserve at the next boot."""
    machine, subject = view.machine, str(want)
    have = machine.read(f"/sys/kernel/mm/hugepages/hugepages-{want.size_kib}kB/nr_hugepages")
    if machine.shared_reason or not isinstance(have, str) or not have.isdigit():
        return Skipped(
            setting, subject, machine.shared_reason or "this kernel does not say how many huge pages there are"
        )
    if int(have) >= want.count:
        return None
    line = machine.read("/proc/cmdline")
    group = f"hugepagesz={SIZES[want.size_kib]} hugepages={want.count}"
    if not isinstance(line, str) or not is_fulfilled(group, split_cmdline(line)):
        advice = "they are set aside at boot, once the kernel arguments ask for them"
        return build_reboot_change(setting, subject, have, str(want.count), advice)
    free = _read_memory(machine)
    advice = f"the kernel could not set aside more at boot{free}; plan fewer, or give the host more memory"
    return build_manual_change(setting, subject, have, str(want.count), advice)


def _read_memory(machine: Machine) -> str:
    lines = machine.read_lines("/proc/meminfo")
    total = next((line.split()[1] for line in lines if line.startswith("MemTotal:")), "")
    return f" (MemTotal is {total} KiB)" if total else ""


KIND = Kind("huge_pages", (Want,), compare, is_for_boot=True)
