"""Vital product data of a PCI card (PCI Local Bus 3.0, appendix I): name, part number, serial number."""

from collections.abc import Iterator
from dataclasses import dataclass

_NAME, _READ_ONLY, _READ_WRITE, _END = 0x82, 0x90, 0x91, 0x78
_LARGE = 0x80
_CHECKSUM = b"RV"
_KINDS_OF_CARD = {b"PN", b"EC", b"MN", b"RW"}
"""Part number, engineering changes, manufacturer, free space: fields that all cards of one kind share.

All other fields may identify one card. A ConnectX has its serial number in SN and VU, and its UUID in V3.
"""


@dataclass(frozen=True, slots=True)
class Vpd:
    """Product name and part number of a card; empty if the VPD lacks them."""

    name: str = ""
    part: str = ""


def parse_vpd(raw: bytes) -> Vpd:
    """Parse VPD. If the data is damaged or truncated, return the fields before the damage."""
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
    """Overwrite every field that may identify one card with X, and correct the checksum."""
    blank = bytearray(raw)
    for tag, start, size in _iter_resources(raw):
        for key, at, length in _iter_fields(raw, start, size) if tag in {_READ_ONLY, _READ_WRITE} else ():
            if key == _CHECKSUM and length:
                blank[at] = -sum(blank[:at]) & 0xFF
            elif key not in _KINDS_OF_CARD:
                blank[at : at + length] = b"X" * length
    return bytes(blank)


def list_serials(raw: bytes) -> list[bytes]:
    """Return the serial numbers of a card (fields SN), without blanks."""
    fields = (
        (key, raw[at : at + length].strip(b"\0 "))
        for tag, start, size in _iter_resources(raw)
        if tag == _READ_ONLY
        for key, at, length in _iter_fields(raw, start, size)
    )
    return [value for key, value in fields if key == b"SN" and value]


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
