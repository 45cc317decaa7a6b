"""Vital product data of a PCI card (PCI Local Bus 3.0, appendix I): part number and name, and how to blank serials."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_NAME, _READ_ONLY, _END = 0x82, 0x90, 0x78
_LARGE = 0x80
_SERIAL, _CHECKSUM = b"SN", b"RV"


@dataclass(frozen=True, slots=True)
class Vpd:
    """Product name and part number of a card; empty where the VPD lacks them."""

    name: str = ""
    part: str = ""


def parse(raw: bytes) -> Vpd:
    """Parse VPD; of damaged or truncated data, return the fields before the damage."""
    name, part = "", ""
    for tag, start, size in _iter_resources(raw):
        if tag == _NAME:
            name = _decode(raw[start : start + size])
        elif tag == _READ_ONLY:
            part = next(
                (_decode(raw[at : at + n]) for key, at, n in _iter_fields(raw, start, size) if key == b"PN"), part
            )
    return Vpd(name, part)


def mask_serials(raw: bytes) -> bytes:
    """Overwrite every serial number by X and correct the checksum."""
    blank = bytearray(raw)
    for tag, start, size in _iter_resources(raw):
        for key, at, length in _iter_fields(raw, start, size) if tag == _READ_ONLY else ():
            if key == _SERIAL:
                blank[at : at + length] = b"X" * length
            elif key == _CHECKSUM and length:
                blank[at] = -sum(blank[:at]) & 0xFF
    return bytes(blank)


def _iter_resources(raw: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield (tag, offset of the content, its size) of each large resource up to the end tag."""
    start = 0
    while start + 3 <= len(raw) and raw[start] != _END and raw[start] & _LARGE:
        size = int.from_bytes(raw[start + 1 : start + 3], "little")
        yield raw[start], start + 3, min(size, len(raw) - start - 3)
        start += 3 + size


def _iter_fields(raw: bytes, start: int, size: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield (key, offset of the value, its length) of each field of a read-only resource."""
    end = start + size
    while start + 3 <= end:
        length = min(raw[start + 2], end - start - 3)
        yield raw[start : start + 2], start + 3, length
        start += 3 + length


def _decode(raw: bytes) -> str:
    return "".join(c for c in raw.decode("ascii", "replace") if c.isprintable()).strip()
