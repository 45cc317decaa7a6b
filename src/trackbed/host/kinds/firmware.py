"""Kind firmware: what a NIC's flash says, as mlxconfig shows it: now, and after the next reset.

    Configurations:                              Default         Current         Next Boot
    *        NUM_OF_VFS                          0               8               16
             SRIOV_EN                            False(0)        True(1)         True(1)

A star marks what differs. Nothing is written: a wrong value in the flash can take a NIC off the bus, so the command is
shown to a person. mstconfig, of the open mstflint, speaks the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from trackbed.host.change import Change, Skipped, advise, await_boot
from trackbed.host.kinds.kind import Kind
from trackbed.host.kinds.view import View
from trackbed.host.machine import Absent
from trackbed.host.setting import Setting

_TOOLS = ("mlxconfig", "mstconfig")
_LINE = re.compile(r"(?:\*\s*)?(?:RO\s+)?([A-Z][A-Z0-9_]*(?:\[\d+(?:\.\.\d+)?\])?)\s+(\S.*)")
_NUMBER = re.compile(r"(?:[\w.-]*\()?(-?\d+)\)?")


class Parameter(NamedTuple):
    """One parameter of a NIC's firmware, as mlxconfig names it, with its value as a number."""

    name: str
    value: str
    at_least: bool = False
    """Whether a larger number is also accepted."""


class Want(NamedTuple):
    """The NIC of port `netdev` (PCI address `pci`) has these parameters; those it does not know are ignored."""

    netdev: str
    pci: str
    parameters: tuple[Parameter, ...]

    def __str__(self) -> str:
        return f"firmware of {self.netdev}"


class Value(NamedTuple):
    """A parameter now and after the next reset, as numbers in text; `now` is None where only the next is shown."""

    now: str | None
    next: str


def parse_values(text: str) -> dict[str, Value]:
    """Parse the parameters of `mlxconfig q`, with `-e` (three columns) or without (one)."""
    parameters: dict[str, Value] = {}
    columns = 0
    for line in text.splitlines():
        if line.startswith("Configurations:"):
            columns = 3 if "Current" in line else 1
            continue
        known = _LINE.fullmatch(line.strip()) if columns else None
        if known:
            values = known[2].split()
            if len(values) >= columns:
                now = _parse_number(values[1]) if columns > 1 else None
                parameters[known[1]] = Value(now, _parse_number(values[columns - 1]))
    return parameters


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of parameters: the command that sets them, or the reset that is still needed."""
    machine, subject = view.machine, str(want)
    tool = next((name for name in _TOOLS if machine.has_program(name)), None)
    if machine.shared_reason or tool is None:
        return Skipped(
            setting, subject, machine.shared_reason or "neither mlxconfig nor mstconfig is here to ask the NIC"
        )
    ran = machine.run((tool, "-d", want.pci, "-e", "q"))
    values = {} if isinstance(ran, Absent) else parse_values(ran.output)
    if isinstance(ran, Absent) or ran.status or not values:
        output = "" if isinstance(ran, Absent) else " / ".join(ran.output.strip().splitlines()[-2:])
        return Skipped(setting, subject, f"{tool} does not answer for {want.pci}: {output}")
    return _judge(setting, want, values, tool)


def _judge(setting: Setting, want: Want, values: Mapping[str, Value], tool: str) -> Change | None:
    subject, known = str(want), [parameter for parameter in want.parameters if parameter.name in values]
    wrong = [parameter for parameter in known if not _is_good(parameter, values[parameter.name].next)]
    if wrong:
        planned = _list({parameter.name: parameter.value for parameter in wrong})
        advice = (
            f"{tool} -y -d {want.pci} set {planned}, then reset the firmware (mlxfwreset -d {want.pci} reset) or reboot"
        )
        return advise(setting, subject, _list({p.name: values[p.name].next for p in wrong}), planned, advice)
    nows = {parameter: values[parameter.name].now for parameter in known}
    late = {parameter.name: now for parameter, now in nows.items() if now is not None and not _is_good(parameter, now)}
    if late:
        advice = f"the NIC takes it with its next reset: mlxfwreset -d {want.pci} reset, or a reboot"
        return await_boot(setting, subject, _list(late), _list({name: values[name].next for name in late}), advice)
    return None


def _is_good(want: Parameter, have: str) -> bool:
    enough = want.at_least and have.isdigit() and int(have) >= int(want.value)
    return have == want.value or enough


def _list(values: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _parse_number(text: str) -> str:
    """Return the number in `True(1)` or `ETH(2)`."""
    known = _NUMBER.fullmatch(text)
    return known[1] if known else text


KIND = Kind("firmware", (Want,), compare, is_read_once=True)
