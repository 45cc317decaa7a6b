"""Kind firmware: parameters in a NIC's flash, as mlxconfig shows them: now, and after the next reset.

    Configurations:                              Default         Current         Next Boot
    *        NUM_OF_VFS                          0               8               16
             SRIOV_EN                            False(0)        True(1)         True(1)

A star marks differences (printSingleParam in mlxconfig/mlxcfg_ui.cpp of mstflint 4.33). Unless the Fabric has
`firmware.parameters: write` or `reset`, nothing is written and the user is shown the command. What is written is
undone with the values that were in the flash before; they take effect at a reset, too. mstconfig and mstfwreset, of the
open mstflint, have the same options and output as mlxconfig and mlxfwreset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from trackbed.host.change import Change, Run, Skipped, build_change, build_manual_change, build_reboot_change
from trackbed.host.kinds.kind import Kind
from trackbed.host.kinds.view import View
from trackbed.host.machine import Absent, Machine
from trackbed.host.setting import Setting

_TOOLS = {"mlxconfig": "mlxfwreset", "mstconfig": "mstfwreset"}
"""Program that reads and sets parameters -> program that resets the firmware."""
_SETTLE = ("udevadm", "settle", "--timeout=30")
_LINE = re.compile(r"(?:\*\s*)?(?:RO\s+)?([A-Z][A-Z0-9_]*(?:\[\d+(?:\.\.\d+)?\])?)\s+(\S.*)")
_NUMBER = re.compile(r"(?:[\w.-]*\()?(-?\d+)\)?")


_LINK_TYPES = {"32": "1", "1": "2"}
"""Type of an interface (ARPHRD_INFINIBAND, ARPHRD_ETHER of include/uapi/linux/if_arp.h) -> value of LINK_TYPE."""


class Parameter(NamedTuple):
    """One parameter of a NIC's firmware, as mlxconfig names it, with its value as a number."""

    name: str
    value: str
    at_least: bool = False
    """Whether a larger number is also accepted."""


class Want(NamedTuple):
    """The NIC of port `netdev` (PCI address `pci`) has these parameters; parameters unknown to it are ignored.

    Apply writes them if `is_written`, and then resets the NIC if `is_reset`.
    """

    netdev: str
    pci: str
    parameters: tuple[Parameter, ...]
    is_written: bool = False
    is_reset: bool = False

    def __str__(self) -> str:
        return f"firmware of {self.netdev}"


class Value(NamedTuple):
    """A parameter now and after the next reset, as numbers in text; `now` is None if the tool does not show it."""

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
    if machine.shared_reason:
        return Skipped(setting, subject, machine.shared_reason)
    tool = next((name for name in _TOOLS if machine.has_program(name)), None)
    if tool is None:
        return _compare_effects(setting, want, machine, "neither mlxconfig nor mstconfig is here to ask the NIC")
    ran = machine.run((tool, "-d", want.pci, "-e", "q"))
    values = {} if isinstance(ran, Absent) else parse_values(ran.output)
    if isinstance(ran, Absent) or ran.status or not values:
        output = "" if isinstance(ran, Absent) else " / ".join(ran.output.strip().splitlines()[-2:])
        return _compare_effects(setting, want, machine, f"{tool} does not answer for {want.pci}: {output}")
    return _compare_values(setting, want, values, tool)


def _compare_effects(setting: Setting, want: Want, machine: Machine, reason: str) -> Change | Skipped | None:
    """Compare what the kernel shows of the firmware, because its parameters cannot be read for `reason`.

    In lockdown (Secure Boot) the tools cannot open the device. The kernel shows the parameters only by their effects:
    the number of VFs that the firmware offers, and the type of the port. Without these the setting is unknown.
    """
    effects = {parameter: _read_effect(machine, want.pci, parameter) for parameter in want.parameters}
    wrong = {parameter: have for parameter, have in effects.items() if have and not _is_satisfied(parameter, have)}
    if wrong:
        have = _format_values({parameter.name: value for parameter, value in wrong.items()})
        planned = _format_values({parameter.name: parameter.value for parameter in wrong})
        advice = f"{reason}; set {planned} where the NIC answers (out of band, or without Secure Boot), then reboot"
        return build_manual_change(setting, str(want), have, planned, advice)
    return None if all(effects.values()) else Skipped(setting, str(want), reason)


def _read_effect(machine: Machine, pci: str, parameter: Parameter) -> str:
    """Return a parameter's value as the kernel shows it; empty if unknown."""
    folder = f"/sys/bus/pci/devices/{pci}"
    if parameter.name in {"SRIOV_EN", "NUM_OF_VFS"}:
        total = "".join(machine.read_lines(f"{folder}/sriov_totalvfs"))
        return str(int(total != "0")) if total and parameter.name == "SRIOV_EN" else total
    netdevs = [path.parent.name for path in machine.root.glob(f"{folder[1:]}/net/*/type")]
    types = ("".join(machine.read_lines(f"{folder}/net/{netdev}/type")) for netdev in netdevs)
    return next((_LINK_TYPES[text] for text in types if text in _LINK_TYPES), "")


def _compare_values(setting: Setting, want: Want, values: Mapping[str, Value], tool: str) -> Change | None:
    subject, known = str(want), [parameter for parameter in want.parameters if parameter.name in values]
    wrong = [parameter for parameter in known if not _is_satisfied(parameter, values[parameter.name].next)]
    planned = {parameter.name: parameter.value for parameter in wrong}
    former = {name: values[name].next for name in planned}
    reset = (_TOOLS[tool], "-y", "-d", want.pci, "reset")
    if wrong and not want.is_written:
        advice = (
            f"{' '.join(_build_set(tool, want.pci, planned))}, then reset the firmware ({' '.join(reset)}) or reboot; "
            "with firmware.parameters: write in the Fabric, apply does it"
        )
        return build_manual_change(setting, subject, _format_values(former), _format_values(planned), advice)
    nows = {parameter.name: values[parameter.name].now for parameter in known}
    late = {p.name: now for p in known if (now := nows[p.name]) is not None and not _is_satisfied(p, now)}
    write = (Run(_build_set(tool, want.pci, planned), _build_set(tool, want.pci, former)),) if wrong else ()
    if want.is_reset and (wrong or late):
        write = (*write, Run(reset, reset), Run(_SETTLE, _SETTLE))
    if write:
        have, need = (former, planned) if wrong else (late, {name: values[name].next for name in late})
        return build_change(setting, subject, _format_values(have), _format_values(need), write)
    if late:
        advice = f"the NIC takes it with its next reset: {' '.join(reset)}, or a reboot"
        return build_reboot_change(
            setting, subject, _format_values(late), _format_values({name: values[name].next for name in late}), advice
        )
    return None


def _build_set(tool: str, pci: str, values: Mapping[str, str]) -> tuple[str, ...]:
    return (tool, "-y", "-d", pci, "set", *(f"{name}={value}" for name, value in values.items()))


def _is_satisfied(want: Parameter, have: str) -> bool:
    enough = want.at_least and have.isdigit() and int(have) >= int(want.value)
    return have == want.value or enough


def _format_values(values: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _parse_number(text: str) -> str:
    """Return the number in `True(1)` or `ETH(2)`; other text is returned unchanged."""
    known = _NUMBER.fullmatch(text)
    return known[1] if known else text


KIND = Kind("firmware", (Want,), compare, needs_port=False, is_read_once=True, is_first=True, is_for_boot=True)
