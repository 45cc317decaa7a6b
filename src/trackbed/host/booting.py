"""Waiting for Trackbed's boot units, which create VFs and write settings that apply would change at the same time."""

from __future__ import annotations

from trackbed.host.machine import Machine
from trackbed.host.runner import ProgramResult

BOOT_UNIT = "trackbed-boot.target"
"""The target of the ports' units, which `steps.boot` renders."""

_JOB = ("systemctl", "show", "--property=Job", "--value", BOOT_UNIT)
_SETTLE = ("udevadm", "settle", "--timeout=30")


def is_boot_unit_pending(machine: Machine) -> bool:
    """Return whether the boot unit is queued or running; False for a machine with a `netns`, which does not boot."""
    shown = machine.run(_JOB) if machine.netns is None else None
    return isinstance(shown, ProgramResult) and shown.status == 0 and shown.output.strip() not in {"", "0"}


def wait_for_boot_unit(machine: Machine) -> None:
    """Wait until the unit has ended (at most `runner.TIMEOUT_SECONDS`) and udev has processed its events."""
    machine.run(("systemctl", "start", BOOT_UNIT))  # waits for the existing job
    machine.run(_SETTLE)
