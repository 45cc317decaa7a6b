"""Vital product data of a PCI card (PCI Local Bus 3.0, appendix I): part number and name, and how to blank serials."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_NAME, _READ_ONLY, _END = 0x82, 0x90, 0x78
_LARGE = 0x80
_SERIAL, _CHECKSUM = b"SN", b"RV"


@dataclass(frozen=True, slots=True)
class Vpd:
    """What a card says of itself; empty where it says nothing."""

    name: str = ""
    part: str = ""


def parse(raw: bytes) -> Vpd:
    """Read VPD; what is broken or cut short yields what came before it."""
    name, part = "", ""
    for tag, place, size in _resources(raw):
        if tag == _NAME:
            name = _text(raw[place : place + size])
        elif tag == _READ_ONLY:
            part = next((_text(raw[at : at + n]) for key, at, n in _fields(raw, place, size) if key == b"PN"), part)
    return Vpd(name, part)


def without_serial(raw: bytes) -> bytes:
    """The same with every serial number overwritten by X, its checksum made good again."""
    blank = bytearray(raw)
    for tag, place, size in _resources(raw):
        for key, at, length in _fields(raw, place, size) if tag == _READ_ONLY else ():
            if key == _SERIAL:
                blank[at : at + length] = b"X" * length
            elif key == _CHECKSUM and length:
                blank[at] = -sum(blank[:at]) & 0xFF
    return bytes(blank)


def _resources(raw: bytes) -> Iterator[tuple[int, int, int]]:
    """(tag, where its content begins, its size) of each large resource up to the end tag."""
    place = 0
    while place + 3 <= len(raw) and raw[place] != _END and raw[place] & _LARGE:
        size = int.from_bytes(raw[place + 1 : place + 3], "little")
        yield raw[place], place + 3, min(size, len(raw) - place - 3)
        place += 3 + size


def _fields(raw: bytes, place: int, size: int) -> Iterator[tuple[bytes, int, int]]:
    """(key, where its value begins, its length) of each field of a read-only resource."""
    end = place + size
    while place + 3 <= end:
        length = min(raw[place + 2], end - place - 3)
        yield raw[place : place + 2], place + 3, length
        place += 3 + length


def _text(raw: bytes) -> str:
    return "".join(c for c in raw.decode("ascii", "replace") if c.isprintable()).strip()
