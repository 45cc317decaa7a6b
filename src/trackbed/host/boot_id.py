"""The boot id, which the kernel draws anew at each start."""

from __future__ import annotations

from pathlib import Path

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def read_boot_id() -> str:
    """Return the id of this kernel's boot."""
    return Path(BOOT_ID).read_text(encoding="ascii").strip()
