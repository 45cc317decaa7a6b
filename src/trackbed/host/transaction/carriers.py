"""Carrier counts of the ports at the last apply. Later changes of the carrier are flaps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from trackbed.fabric.documents import parse_document, to_document
from trackbed.host.atomic import replace
from trackbed.host.boot_id import BOOT_ID
from trackbed.host.machine import Machine
from trackbed.host.state import read_host_state
from trackbed.host.transaction.record import find_folder

FILE = "carriers.json"


class _CarrierRecord(NamedTuple):
    """Carrier counts by interface, and the id of the boot in which they were read: counts restart at 0 at boot."""

    boot: str
    counts: dict[str, tuple[int, int]]


def save_counts(machine: Machine, names: frozenset[str], folder: Path) -> None:
    """Save the carrier counts of these interfaces in `folder` (IFLA_CARRIER_UP_COUNT, IFLA_CARRIER_DOWN_COUNT)."""
    counts = {
        link.name: (link.carrier_up_count + link.carrier_down_count, link.carrier_down_count)
        for link in read_host_state(machine).links
        if link.name in names
    }
    record = _CarrierRecord(_read_boot_id(machine), counts)
    replace(folder / FILE, json.dumps(to_document(record)).encode(), 0o600)


def load_counts(machine: Machine) -> dict[str, tuple[int, int]] | None:
    """Return (carrier changes, losses) at the last apply by interface; None without an apply since the boot."""
    try:
        record = parse_document(json.loads((find_folder(machine) / FILE).read_bytes()), _CarrierRecord)
    except (OSError, ValueError):
        return None
    return record.counts if record.boot == _read_boot_id(machine) else None


def _read_boot_id(machine: Machine) -> str:
    """Return the id of the machine's boot; empty if its root has no /proc, as in the lab."""
    boot = machine.read(BOOT_ID)
    return boot if isinstance(boot, str) else ""
