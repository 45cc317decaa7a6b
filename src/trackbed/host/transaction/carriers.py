"""How often each port had changed its carrier when the host was last applied: later counts above these are flaps."""

from __future__ import annotations

from pathlib import Path

import msgspec

from trackbed.host.atomic import replace
from trackbed.host.boot_id import BOOT_ID
from trackbed.host.machine import Machine
from trackbed.host.state import read
from trackbed.host.transaction.record import find_folder

FILE = "carriers.json"


class _Noted(msgspec.Struct):
    """Counts, and the boot that they are of: the kernel starts over with the next one."""

    boot: str
    counts: dict[str, tuple[int, int]]


def save(machine: Machine, names: frozenset[str], place: Path) -> None:
    """Note in folder `place` the counts of these interfaces (IFLA_CARRIER_UP_COUNT, IFLA_CARRIER_DOWN_COUNT)."""
    counts = {
        link.name: (link.carrier_up_count + link.carrier_down_count, link.carrier_down_count)
        for link in read(machine).links
        if link.name in names
    }
    replace(place / FILE, msgspec.json.encode(_Noted(_boot(machine), counts)), 0o600)


def load(machine: Machine) -> dict[str, tuple[int, int]] | None:
    """Interface -> (changes, losses) at the last apply; None where none was since the boot, or it cannot be read."""
    try:
        noted = msgspec.json.decode((find_folder(machine) / FILE).read_bytes(), type=_Noted)
    except (OSError, msgspec.MsgspecError):
        return None
    return noted.counts if noted.boot == _boot(machine) else None


def _boot(machine: Machine) -> str:
    """Which boot of the machine this is; empty in a namespace of the lab, whose root has no /proc."""
    found = machine.read(BOOT_ID)
    return found if isinstance(found, str) else ""
