"""Kind kernel parameter: a file below /proc/sys holds a value.

A parameter that this machine does not have (the neighbour tables' sizes exist only in the initial network namespace,
IPv6 may be off) is skipped with the reason: there is nothing to set and nothing wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.host.change import Change, Skipped, SysctlWrite, wanted
from trackbed.host.machine import Absent, Unreadable

if TYPE_CHECKING:
    from trackbed.host.kinds.view import View
    from trackbed.host.setting import Setting, Sysctl


def compare(setting: Setting, want: Sysctl, view: View) -> Change | Skipped | None:
    """The parameter that has another value."""
    have = view.state.sysctl(live_key(want.key, view))
    if isinstance(have, Absent):
        return Skipped(setting, want.key, "this machine, or this network namespace, has no such kernel parameter")
    if isinstance(have, Unreadable):
        return Skipped(setting, want.key, f"cannot be read: {have.reason}")
    if have == want.value or (want.at_least and _number(have) >= int(want.value)):
        return None
    return wanted(setting, want.key, have, want.value, (SysctlWrite(want.key, want.value),))


def live_key(key: str, view: View) -> str:
    """The key under the name that the port has now; the setting speaks of the name it shall have."""
    parts = key.split("/")
    link = view.ports.get(parts[3]) if parts[2:3] == ["conf"] else None
    return "/".join([*parts[:3], link.name, *parts[4:]]) if link else key


def _number(text: str) -> int:
    return int(text) if text.isdigit() else -1
