from __future__ import annotations

import pytest

from trackbed.host.snapshot.vpd import Vpd, list_serials, mask_serials, parse_vpd


def field(key: str, value: bytes) -> bytes:
    return key.encode() + bytes([len(value)]) + value


def large(tag: int, content: bytes) -> bytes:
    return bytes([tag]) + len(content).to_bytes(2, "little") + content


NAME = large(0x82, b"NVIDIA ConnectX-7 OSFP")


def vpd(serial: bytes = b"MT2243X00123") -> bytes:
    """VPD as the standard lays it out: name, read-only fields, a checksum that makes all up to it sum to 0, the end."""
    fields = field("PN", b"MCX75310AAS-NEAT") + field("SN", serial)
    size = len(fields) + 4
    head = NAME + bytes([0x90]) + size.to_bytes(2, "little") + fields + b"RV\x01"
    return head + bytes([-sum(head) & 0xFF]) + b"\x78"


def test_name_and_part_number_are_read() -> None:
    assert parse_vpd(vpd()) == Vpd("NVIDIA ConnectX-7 OSFP", "MCX75310AAS-NEAT")


def test_the_serial_number_goes_and_the_rest_stays() -> None:
    blank = mask_serials(vpd())
    assert b"MT2243X00123" not in blank
    assert blank == vpd(b"X" * 12), "with a checksum that is right again"


def test_fields_of_a_vendor_that_repeat_the_serial_number_go_too() -> None:
    """ConnectX has the card's UUID in V3 and its serial number once more in VU; a server's asset tag is writable."""
    fields = field("PN", b"MCX75310AAS-NEAT") + field("SN", b"MT2243X00123 ")
    fields += field("V3", b"d610e4f45c66ee118000a088c2b8a0c4") + field("VU", b"MT2243X00123MLNXS0D0F0")
    raw = NAME + large(0x90, fields) + large(0x91, field("YA", b"rack 7 of Example Inc")) + b"\x78"
    blank = mask_serials(raw)
    assert [word in blank for word in (b"MT2243X00123", b"d610e4f4", b"Example", b"MCX75310AAS-NEAT")] == [
        False
    ] * 3 + [True]
    assert list_serials(raw) == [b"MT2243X00123"]


BROKEN = {
    "empty": (b"", Vpd()),
    "zeros": (bytes(64), Vpd()),
    "ones": (b"\xff" * 64, Vpd()),
    "cut short in the name": (NAME[:12], Vpd("NVIDIA Co")),
    "cut short in a field": (NAME + bytes([0x90, 40, 0]) + b"PN\x20MCX", Vpd("NVIDIA ConnectX-7 OSFP", "MCX")),
}


@pytest.mark.parametrize(("raw", "vpd"), BROKEN.values(), ids=BROKEN)
def test_broken_vpd_yields_what_came_before(raw: bytes, vpd: Vpd) -> None:
    assert parse_vpd(raw) == vpd
    assert len(mask_serials(raw)) == len(raw)
