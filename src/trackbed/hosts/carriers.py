"""How often each port had changed its carrier when the host was last applied: later counts above these are flaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trackbed.hosts.files import replace
from trackbed.hosts.record import folder
from trackbed.hosts.state import read

if TYPE_CHECKING:
    from pathlib import Path

    from trackbed.hosts.machine import Machine

FILE = "carriers.json"


def save(machine: Machine, names: frozenset[str], place: Path) -> None:
    """Note in folder `place` the counts of these interfaces (IFLA_CARRIER_UP_COUNT, IFLA_CARRIER_DOWN_COUNT)."""
    counts = {
        link.name: (link.carrier_up_count + link.carrier_down_count, link.carrier_down_count)
        for link in read(machine).links
        if link.name in names
    }
    replace(place / FILE, msgspec.json.encode(counts), 0o600)


def load(machine: Machine) -> dict[str, tuple[int, int]] | None:
    """Interface -> (changes, losses) at the last apply; None where nothing was noted, or it cannot be read."""
    try:
        return msgspec.json.decode((folder(machine) / FILE).read_bytes(), type=dict[str, tuple[int, int]])
    except (OSError, msgspec.MsgspecError):
        return None
