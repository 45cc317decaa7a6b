"""The boot id, which the kernel generates anew at each boot (random(4))."""

from __future__ import annotations

from pathlib import Path

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def read_boot_id() -> str:
    """Return the boot id of the running kernel."""
    return Path(BOOT_ID).read_text(encoding="ascii").strip()
