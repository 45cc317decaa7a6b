"""The configuration space of a PCI function: the bytes of `/sys/bus/pci/devices/*/config`.

    0x00   header: vendor, device, status (bit 4: has a list of capabilities), at 0x34 the offset of the first
    0x40   capabilities, each with an id and the offset of the next: Express (0x10) has device and link registers
    0x100  extended capabilities with heads of four bytes: serial number 0x0003, ACS 0x000D, ATS 0x000F

(PCI Express Base Specification, chapter 7; the names and offsets of include/uapi/linux/pci_regs.h.) Without root only
the 64 bytes of the header can be read, and every byte of a removed function reads as ff. Both have no capabilities
here, which does not describe the hardware; use `is_readable` to recognise them.
"""

from __future__ import annotations

from dataclasses import dataclass

HEADER_BYTES = 64
LEGACY_BYTES = 256
_STATUS, _HAS_LIST, _LIST = 0x06, 0x10, 0x34

EXPRESS = 0x10
ACS, ATS = 0x000D, 0x000F
SERIAL_NUMBER = 0x0003

ACS_REDIRECTS = 0x1C
"""Bits of ACS control that redirect: P2P request redirect (2), completion redirect (3), upstream forwarding (4)."""

_SPEEDS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
"""Code of a link speed -> GT/s."""


@dataclass(frozen=True)
class Express:
    """Device and link registers; sizes in bytes, speeds in GT/s (0 for an unknown code)."""

    relaxed_ordering: bool
    max_payload_bytes: int
    max_read_request_bytes: int
    speed: float
    max_speed: float
    width: int
    max_width: int


def is_readable(config: bytes) -> bool:
    """Return whether the bytes hold capabilities: read by root, from a function that responds."""
    return len(config) > HEADER_BYTES and config[:4] != b"\xff\xff\xff\xff"


def list_capabilities(config: bytes) -> dict[int, int]:
    """Return the offset of each capability by id; the first one if several have the same id."""
    offsets: dict[int, int] = {}
    offset = config[_LIST] & ~3 if is_readable(config) and config[_STATUS] & _HAS_LIST else 0
    visited: set[int] = set()
    while HEADER_BYTES <= offset < min(len(config) - 1, LEGACY_BYTES) and offset not in visited:
        visited.add(offset)
        offsets.setdefault(config[offset], offset)
        offset = config[offset + 1] & ~3
    return offsets


def find_extended_capabilities(config: bytes) -> dict[int, int]:
    """Return the offset of each extended capability by id; the first one if several have the same id."""
    offsets: dict[int, int] = {}
    offset, visited = LEGACY_BYTES if is_readable(config) else 0, set[int]()
    while LEGACY_BYTES <= offset <= len(config) - 4 and offset not in visited:
        visited.add(offset)
        header = _read_number(config, offset, 4)
        if header in {0, 0xFFFFFFFF}:
            break
        offsets.setdefault(header & 0xFFFF, offset)
        offset = header >> 20 & ~3
    return offsets


def read_express(config: bytes) -> Express | None:
    """Return the PCI Express registers; None if the function has none."""
    offset = list_capabilities(config).get(EXPRESS)
    if offset is None or offset + 0x14 > len(config):
        return None
    control, most, now = (
        _read_number(config, offset + 8, 2),
        _read_number(config, offset + 12, 4),
        _read_number(config, offset + 18, 2),
    )
    return Express(
        relaxed_ordering=bool(control & 0x10),
        max_payload_bytes=128 << (control >> 5 & 7),
        max_read_request_bytes=128 << (control >> 12 & 7),
        speed=_SPEEDS.get(now & 0xF, 0),
        max_speed=_SPEEDS.get(most & 0xF, 0),
        width=now >> 4 & 0x3F,
        max_width=most >> 4 & 0x3F,
    )


def read_acs(config: bytes) -> int | None:
    """Return the ACS control register; None if the function has no ACS."""
    offset = find_extended_capabilities(config).get(ACS)
    return _read_number(config, offset + 6, 2) if offset is not None and offset + 8 <= len(config) else None


def read_ats(config: bytes) -> bool | None:
    """Return whether ATS is enabled; None if the function has no ATS."""
    offset = find_extended_capabilities(config).get(ATS)
    return (
        bool(_read_number(config, offset + 6, 2) & 0x8000) if offset is not None and offset + 8 <= len(config) else None
    )


def mask_serial_number(config: bytes) -> bytes:
    """Overwrite the function's serial number, eight bytes that are often a MAC address, with zeros."""
    offset = find_extended_capabilities(config).get(SERIAL_NUMBER)
    return (
        config
        if offset is None
        else config[: offset + 4] + bytes(len(config[offset + 4 : offset + 12])) + config[offset + 12 :]
    )


def _read_number(config: bytes, offset: int, size: int) -> int:
    return int.from_bytes(config[offset : offset + size], "little")
