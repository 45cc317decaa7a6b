"""How often each port had changed its carrier at the last apply: later changes are flaps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from trackbed.fabric.documents import parse_document, to_document
from trackbed.host.atomic import replace
from trackbed.host.boot_id import BOOT_ID
from trackbed.host.machine import Machine
from trackbed.host.state import read
from trackbed.host.transaction.record import find_folder

FILE = "carriers.json"


class _CarrierRecord(NamedTuple):
    """Counts of interfaces, and the boot in which they were read: the kernel counts from 0 after each boot."""

    boot: str
    counts: dict[str, tuple[int, int]]


def save(machine: Machine, names: frozenset[str], place: Path) -> None:
    """Write to folder `place` the counts of these interfaces (IFLA_CARRIER_UP_COUNT, IFLA_CARRIER_DOWN_COUNT)."""
    counts = {
        link.name: (link.carrier_up_count + link.carrier_down_count, link.carrier_down_count)
        for link in read(machine).links
        if link.name in names
    }
    record = _CarrierRecord(_read_boot(machine), counts)
    replace(place / FILE, json.dumps(to_document(record)).encode(), 0o600)


def load(machine: Machine) -> dict[str, tuple[int, int]] | None:
    """Return (changes, losses) at the last apply by interface; None if there was none since the boot, or unreadable."""
    try:
        record = parse_document(json.loads((find_folder(machine) / FILE).read_bytes()), _CarrierRecord)
    except (OSError, ValueError):
        return None
    return record.counts if record.boot == _read_boot(machine) else None


def _read_boot(machine: Machine) -> str:
    """Return the id of the machine's boot; empty in a namespace of the lab, whose root has no /proc."""
    boot = machine.read(BOOT_ID)
    return boot if isinstance(boot, str) else ""
