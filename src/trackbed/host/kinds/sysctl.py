"""Kind kernel parameter: a file below /proc/sys holds a value.

A parameter that does not exist on the machine is skipped: the sizes of the neighbour tables exist only in the initial
network namespace, and IPv6 may be disabled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trackbed.host.change import Change, Skipped, SysctlWrite, build_change
from trackbed.host.kinds.kind import Kind, UndoData, keep_pods
from trackbed.host.kinds.view import View
from trackbed.host.kinds.writers import find_sysctl_writers
from trackbed.host.machine import Absent, Machine, Unreadable
from trackbed.host.setting import Setting


class Want(NamedTuple):
    """The file `/proc/sys/<key>` holds `value`; `key` has slashes, because interface names may contain dots."""

    key: str
    value: str
    at_least: bool = False
    """Whether a larger number on the machine is also accepted (table sizes)."""

    @property
    def netdev(self) -> str:
        """The port that the parameter belongs to; empty if it belongs to no interface."""
        parts = self.key.split("/")
        return parts[3] if parts[2:3] == ["conf"] else ""

    def __str__(self) -> str:
        return self.key


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of a parameter that has another value."""
    have = view.machine.read_sysctl(_find_key(want, view))
    if isinstance(have, Absent):
        return Skipped(setting, want.key, "this machine, or this network namespace, has no such kernel parameter")
    if isinstance(have, Unreadable):
        return Skipped(setting, want.key, f"cannot be read: {have.reason}")
    if have == want.value or (want.at_least and have.isdigit() and int(have) >= int(want.value)):
        return None
    return build_change(setting, want.key, have, want.value, (SysctlWrite(want.key, want.value),))


def read_undo_data(view: View) -> UndoData:
    """Return the values by key, under the present names of ports."""
    values = {key: view.machine.read_sysctl(key) for key in (_find_key(want, view) for want in view.list_wants(Want))}
    return {key: value for key, value in values.items() if isinstance(value, str)}


def restore(machine: Machine, undo_data: UndoData) -> Iterator[str]:
    """Write the recorded values that differ; yield failures as text."""
    for key, value in undo_data.items():
        try:
            if machine.read_sysctl(key) != value:
                machine.write_sysctl(key, value)
        except OSError as error:
            yield f"{key}: {error.strerror}"


def _find_key(want: Want, view: View) -> str:
    """Return the key under the port's present name; the setting has the planned name."""
    link = view.ports.get(want.netdev)
    parts = want.key.split("/")
    return "/".join([*parts[:3], link.name, *parts[4:]]) if link else want.key


KIND = Kind(
    "sysctl",
    (Want,),
    compare,
    read_undo_data=read_undo_data,
    restore=restore,
    disrupts_pods=keep_pods,
    find_writers=lambda want, view: find_sysctl_writers(view.machine, want.key, want.value),
    is_grouped=False,
)
