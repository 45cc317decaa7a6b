"""Kind module: a kernel module is loaded or built in."""

from __future__ import annotations

from typing import NamedTuple

from trackbed.host.change import NOTHING, Change, Skipped, advise
from trackbed.host.kinds.kind import Kind
from trackbed.host.kinds.view import View
from trackbed.host.setting import Setting


class Want(NamedTuple):
    """A kernel module is loaded (or built in)."""

    name: str

    def __str__(self) -> str:
        return f"kernel module {self.name}"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of a module that is neither loaded nor built in."""
    machine, subject = view.machine, str(want)
    if machine.shared_reason or not machine.locate("/sys/module").is_dir():
        return Skipped(setting, subject, machine.shared_reason or "/sys/module is not there")
    if machine.locate(f"/sys/module/{want.name}").is_dir():
        return None
    advice = f"modprobe {want.name}; where that fails, install the NIC's driver for this kernel (dkms status)"
    return advise(setting, subject, NOTHING, "loaded", advice)


KIND = Kind("module", (Want,), compare)
