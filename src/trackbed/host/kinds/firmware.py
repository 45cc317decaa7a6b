"""Kind firmware: what a NIC's flash says, as mlxconfig shows it: now, and after the next reset.

    Configurations:                              Default         Current         Next Boot
    *        NUM_OF_VFS                          0               8               16
             SRIOV_EN                            False(0)        True(1)         True(1)

A star marks what differs. Nothing is written: a wrong value in the flash can take a NIC off the bus, so the command is
shown to a person. mstconfig, of the open mstflint, speaks the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trackbed.host.change import Change, Skipped, awaiting, refused
from trackbed.host.machine import Absent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trackbed.host.kinds.view import View
    from trackbed.host.setting import Firmware, Parameter, Setting

_TOOLS = ("mlxconfig", "mstconfig")
_LINE = re.compile(r"(?:\*\s*)?(?:RO\s+)?([A-Z][A-Z0-9_]*(?:\[\d+(?:\.\.\d+)?\])?)\s+(\S.*)")
_NUMBER = re.compile(r"(?:[\w.-]*\()?(-?\d+)\)?")


@dataclass(frozen=True, slots=True)
class Value:
    """A parameter now and after the next reset, as numbers in text; `now` is None where only the next is shown."""

    now: str | None
    next: str


def parse(text: str) -> dict[str, Value]:
    """Every parameter of `mlxconfig q`, with `-e` (three columns) or without (one)."""
    found: dict[str, Value] = {}
    columns = 0
    for line in text.splitlines():
        if line.startswith("Configurations:"):
            columns = 3 if "Current" in line else 1
            continue
        known = _LINE.fullmatch(line.strip()) if columns else None
        if known:
            values = known[2].split()
            if len(values) >= columns:
                now = _plain(values[1]) if columns > 1 else None
                found[known[1]] = Value(now, _plain(values[columns - 1]))
    return found


def compare(setting: Setting, want: Firmware, view: View) -> Change | Skipped | None:
    """Parameters that are not as wanted: the command is told, then that only a reset is missing."""
    machine, what = view.state.machine, f"firmware of {want.netdev}"
    tool = next((name for name in _TOOLS if machine.has(name)), None)
    if machine.shared or tool is None:
        return Skipped(setting, what, machine.shared or "neither mlxconfig nor mstconfig is here to ask the NIC")
    ran = machine.run((tool, "-d", want.pci, "-e", "q"))
    have = {} if isinstance(ran, Absent) else parse(ran.output)
    if isinstance(ran, Absent) or ran.status or not have:
        said = "" if isinstance(ran, Absent) else " / ".join(ran.output.strip().splitlines()[-2:])
        return Skipped(setting, what, f"{tool} does not answer for {want.pci}: {said}")
    return _judged(setting, want, have, tool)


def _judged(setting: Setting, want: Firmware, have: Mapping[str, Value], tool: str) -> Change | None:
    what, asked = f"firmware of {want.netdev}", [one for one in want.parameters if one.name in have]
    wrong = [one for one in asked if not _good(one, have[one.name].next)]
    if wrong:
        told = " ".join(f"{one.name}={one.value}" for one in wrong)
        advice = (
            f"{tool} -y -d {want.pci} set {told}, then reset the firmware (mlxfwreset -d {want.pci} reset) or reboot"
        )
        return refused(setting, what, _shown(wrong, {n: v.next for n, v in have.items()}), told, advice)
    late = [one for one in asked if (now := have[one.name].now) is not None and not _good(one, now)]
    if late:
        told = " ".join(f"{one.name}={have[one.name].next}" for one in late)
        advice = f"the NIC takes it with its next reset: mlxfwreset -d {want.pci} reset, or a reboot"
        return awaiting(setting, what, _shown(late, {n: v.now or "" for n, v in have.items()}), told, advice)
    return None


def _good(want: Parameter, have: str) -> bool:
    enough = want.at_least and have.isdigit() and int(have) >= int(want.value)
    return have == want.value or enough


def _shown(parameters: Iterable[Parameter], have: Mapping[str, str]) -> str:
    return " ".join(f"{one.name}={have[one.name]}" for one in parameters)


def _plain(text: str) -> str:
    """`True(1)` and `ETH(2)` as their numbers."""
    known = _NUMBER.fullmatch(text)
    return known[1] if known else text
