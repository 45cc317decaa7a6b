"""Kind kernel parameter: a file below /proc/sys holds a value.

A parameter that this machine does not have (the neighbour tables' sizes exist only in the initial network namespace,
IPv6 may be off) is skipped with the reason: there is nothing to set and nothing wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trackbed.host.change import Change, Skipped, SysctlWrite, fulfil
from trackbed.host.kinds.kind import Kept, Kind
from trackbed.host.kinds.view import View
from trackbed.host.machine import Absent, Machine, Unreadable
from trackbed.host.setting import Setting


class Want(NamedTuple):
    """The file `/proc/sys/<key>` holds `value`; `key` with slashes, so interface names may hold dots."""

    key: str
    value: str
    at_least: bool = False
    """Whether a larger number on the machine is also accepted (table sizes)."""

    @property
    def netdev(self) -> str:
        """The port, where the parameter is an interface's."""
        parts = self.key.split("/")
        return parts[3] if parts[2:3] == ["conf"] else ""

    def __str__(self) -> str:
        return self.key


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of a parameter that has another value."""
    have = view.state.read_sysctl(_find_key(want, view))
    if isinstance(have, Absent):
        return Skipped(setting, want.key, "this machine, or this network namespace, has no such kernel parameter")
    if isinstance(have, Unreadable):
        return Skipped(setting, want.key, f"cannot be read: {have.reason}")
    if have == want.value or (want.at_least and have.isdigit() and int(have) >= int(want.value)):
        return None
    return fulfil(setting, want.key, have, want.value, (SysctlWrite(want.key, want.value),))


def keep(view: View) -> Kept:
    """Return the values by key, under the present names of ports."""
    values = {key: view.state.read_sysctl(key) for key in (_find_key(want, view) for want in view.list_wants(Want))}
    return {key: value for key, value in values.items() if isinstance(value, str)}


def restore(machine: Machine, kept: Kept) -> Iterator[str]:
    """Write the values that differ."""
    for key, value in kept.items():
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


KIND = Kind("sysctl", (Want,), compare, keep=keep, restore=restore, is_grouped=False)
