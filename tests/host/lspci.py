"""Functions of a real machine, read from what `lspci -vvv` printed about it."""

from __future__ import annotations

import lzma
import os
import re
from itertools import pairwise
from pathlib import Path

from tests.host.h100 import Function

CAPTURES = Path(os.environ.get("TRACKBED_SHARED") or Path(__file__).parents[3] / "shared") / "fixtures" / "captures"
"""Captures of others, which are not part of the project."""

_CLASSES = {
    "PCI bridge": "0604",
    "3D controller": "0302",
    "Ethernet controller": "0200",
    "Non-Volatile memory controller": "0108",
}
_IDS = {"ConnectX-7": "15b3:1021", "ConnectX-6 Dx": "15b3:101d", "BCM5720": "14e4:165f", "PEX890xx": "1000:c030"}
_VENDORS = {"Intel": "8086", "NVIDIA": "10de", "PMC-Sierra": "11f8", "Micron": "1344"}
_SPEEDS = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5}
_HEAD = re.compile(r"([0-9a-f]{2}):([0-9a-f]{2}\.[0-7]) ([^:\[]+?)(?: \[[0-9a-f]{4}\])?: (.*)")
_CAPABILITY = re.compile(r"Capabilities: \[([0-9a-f]+)(?: v\d+)?\] (.*)")
_NAMES = {"Express": 0x10, "MSI-X": 0x11, "MSI:": 0x05, "Power": 0x01, "Vital": 0x03, "Vendor": 0x09, "Subsystem": 0x0D}
_EXTENDED = {
    "Advanced": 0x01,
    "Access": 0x0D,
    "Device Serial": 0x03,
    "Address": 0x0F,
    "Single": 0x10,
    "Alternative": 0x0E,
}


def read_capture(name: str) -> str:
    """Return the text of a compressed capture."""
    return lzma.decompress((CAPTURES / name).read_bytes()).decode()


def parse_functions(text: str) -> dict[str, tuple[Function, bytes]]:
    """Return each function by its address, with a configuration space that has its capabilities where they are."""
    blocks = {match: block for block in text.strip().split("\n\n") if (match := _HEAD.match(block))}
    bridges = {bus: match for match, block in blocks.items() for bus in re.findall(r"secondary=(\w+)", block)}

    def find_path(match: re.Match[str]) -> tuple[str, ...]:
        above = bridges.get(match[1])
        return (*(find_path(above) if above else (f"pci0000:{match[1]}",)), f"0000:{match[1]}:{match[2]}")

    functions = (_parse_function(find_path(match), match, block) for match, block in blocks.items())
    return {function.pci: (function, config) for function, config in functions}


def _parse_function(path: tuple[str, ...], head: re.Match[str], block: str) -> tuple[Function, bytes]:
    maximum, current = (
        re.search(rf"{name}:.*?Speed ([\d.]+)GT/s.*?Width x(\d+)", block) for name in ("LnkCap", "LnkSta")
    )
    control = re.search(r"ACSCtl:\s*(.*)", block)
    function = Function(
        path,
        _CLASSES.get(head[3], "0880"),
        _find_id(head[4]),
        int(_find(r"NUMA node: (\d+)", block) or -1),
        _SPEEDS[current[1]] if current else 1,
        int(current[2]) if current else 1,
        _SPEEDS[maximum[1]] if maximum else 1,
        int(_find(r"MaxReadReq (\d+)", block) or 128),
        relaxed="RlxdOrd+" in block,
        acs=_parse_flags(control[1]) if control else None,
        below=f"0000:{bus}" if (bus := _find(r"secondary=(\w+)", block)) else "",
        driver=_find(r"Kernel driver in use: (\S+)", block),
        label=_find(r"DeviceName: (.*)", block),
    )
    return function, _build_config(function, int(maximum[2]) if maximum else 1, block)


def _find(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match[1] if match else ""


def _find_id(name: str) -> str:
    known = next((ident for word, ident in _IDS.items() if word in name), "")
    vendor = next((number for word, number in _VENDORS.items() if word in name), "ffff")
    return known or f"{vendor}:{_find(r'Device (....)', name) or '0000'}"


def _parse_flags(flags: str) -> int:
    return sum(1 << bit for bit, flag in enumerate(flags.split()) if flag.endswith("+"))


def _build_config(function: Function, max_width: int, block: str) -> bytes:
    config = bytearray(4096)
    config[:2], config[0x06] = bytes.fromhex(function.id[:4])[::-1], 0x10
    places = [(int(offset, 16), name) for offset, name in _CAPABILITY.findall(block)]
    legacy = [(offset, _find_number(_NAMES, name)) for offset, name in places if offset < 0x100]
    extended = [(offset, _find_number(_EXTENDED, name)) for offset, name in places if offset >= 0x100]
    config[0x34] = legacy[0][0] if legacy else 0
    for (offset, number), (following, _) in pairwise([*legacy, (0, 0)]):
        config[offset : offset + 2] = bytes((number, following))
        if number == 0x10:
            control = function.relaxed << 4 | ((function.read_request // 128).bit_length() - 1) << 12
            config[offset + 8 : offset + 10] = control.to_bytes(2, "little")
            config[offset + 12 : offset + 14] = (function.max_speed | max_width << 4).to_bytes(2, "little")
            config[offset + 18 : offset + 20] = (function.speed | function.width << 4).to_bytes(2, "little")
    for (offset, number), (following, _) in pairwise([*extended, (0, 0)]):
        config[offset : offset + 4] = (number | 1 << 16 | following << 20).to_bytes(4, "little")
        if number == 0x0D:
            config[offset + 6 : offset + 8] = (function.acs or 0).to_bytes(2, "little")
    return bytes(config)


def _find_number(numbers: dict[str, int], name: str) -> int:
    return next((number for word, number in numbers.items() if name.startswith(word)), 0x7F)
