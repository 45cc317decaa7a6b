"""sushy-tools' emulator with a fake system that has a BIOS: python emulator.py ARGUMENTS OF sushy-emulator.

Upstream's fake driver has no BIOS. Attributes here live in memory, and pending ones are current at once, as upstream's
libvirt driver does it.
"""

from __future__ import annotations

import sys

from sushy_tools.emulator.main import main  # type: ignore[import-untyped] # sushy-tools ships no types
from sushy_tools.emulator.resources.systems.fakedriver import FakeDriver  # type: ignore[import-untyped] # as above

ATTRIBUTES = {"ProcVirtualization": "Disabled", "SriovGlobalEnable": "Enabled", "Other": "Kept"}


def get_bios(_driver: object, _identity: str) -> dict[str, str]:
    return ATTRIBUTES


def set_bios(_driver: object, _identity: str, attributes: dict[str, str]) -> None:
    ATTRIBUTES.update(attributes)


FakeDriver.get_bios = get_bios
FakeDriver.set_bios = set_bios
sys.exit(main())
