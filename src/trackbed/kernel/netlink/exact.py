"""Fixed structs in attributes, accepted at their exact size only."""

from __future__ import annotations

import struct

from trackbed.kernel.netlink.codec import MalformedError

U8, U32, U64 = struct.Struct("=B"), struct.Struct("=I"), struct.Struct("=Q")
GUID_BITS = 64
_QUARTER_BITS = 16


def unpack_exact(layout: struct.Struct, value: bytes | memoryview, label: str) -> tuple[int, ...]:
    """Unpack a struct. Raises MalformedError with `label` (the attribute's name in the header) if the size differs."""
    if len(value) != layout.size:
        raise MalformedError(f"{label} of {len(value)} bytes, expected {layout.size}")
    return layout.unpack(value)


def unpack_number(layout: struct.Struct, value: bytes | memoryview | None, label: str, default: int = 0) -> int:
    """Return the number in an attribute, or `default` if it is absent. Raises MalformedError if the size differs."""
    return default if value is None else unpack_exact(layout, value, label)[0]


def format_guid(guid: int) -> str:
    """Return a GUID in the format of /sys/class/infiniband: 0011:2233:4455:6677."""
    digits = f"{guid:016x}"
    return ":".join(digits[start : start + 4] for start in range(0, GUID_BITS // 4, _QUARTER_BITS // 4))


def parse_guid(text: str) -> int:
    """Parse a GUID of 16 hexadecimal digits with optional colons. Raises ValueError on other text."""
    digits = text.replace(":", "")
    if len(digits) * 4 != GUID_BITS:
        raise ValueError(f"{text!r} is no GUID: write 16 hexadecimal digits, as in 0011:2233:4455:6677")
    return int.from_bytes(bytes.fromhex(digits), "big")
