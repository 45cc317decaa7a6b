"""Whether a host is still booting: its boot unit creates VFs and writes settings that apply would also write."""

from __future__ import annotations

from trackbed.host.machine import Machine
from trackbed.host.runner import Ran

UNIT = "trackbed-boot.service"
"""`steps.boot` writes it."""

_JOB = ("systemctl", "show", "--property=Job", "--value", UNIT)
_SETTLE = ("udevadm", "settle", "--timeout=30")


def is_pending(machine: Machine) -> bool:
    """Return whether the boot unit is queued or running. A network namespace (`netns`) does not boot."""
    shown = machine.run(_JOB) if machine.netns is None else None
    return isinstance(shown, Ran) and shown.status == 0 and shown.output.strip() not in {"", "0"}


def wait(machine: Machine) -> None:
    """Wait until the unit has ended (at most `runner.TIMEOUT_SECONDS`) and udev has processed its events."""
    machine.run(("systemctl", "start", UNIT))  # joins the job that is there
    machine.run(_SETTLE)
