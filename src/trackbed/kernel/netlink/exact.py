"""Fixed structs in attributes, accepted at their exact size only."""

from __future__ import annotations

import struct

from trackbed.kernel.netlink.codec import MalformedError

U8, U32, U64 = struct.Struct("=B"), struct.Struct("=I"), struct.Struct("=Q")
GUID_BITS = 64
_QUARTER_BITS = 16


def unpack_exact(layout: struct.Struct, value: bytes | memoryview, label: str) -> tuple[int, ...]:
    """Unpack a struct; MalformedError naming `label` (the header's name of the attribute) if the size differs."""
    if len(value) != layout.size:
        msg = f"{label} of {len(value)} bytes, expected {layout.size}"
        raise MalformedError(msg)
    return layout.unpack(value)


def unpack_number(layout: struct.Struct, value: bytes | memoryview | None, label: str, default: int = 0) -> int:
    """Unpack an attribute of one number, `default` if it is absent; raises as `unpack_exact`."""
    return default if value is None else unpack_exact(layout, value, label)[0]


def format_guid(guid: int) -> str:
    """Return a GUID in the format of /sys/class/infiniband: 0011:2233:4455:6677."""
    digits = f"{guid:016x}"
    return ":".join(digits[start : start + 4] for start in range(0, GUID_BITS // 4, _QUARTER_BITS // 4))


def parse_guid(text: str) -> int:
    """Parse a GUID of 16 hexadecimal digits with optional colons; ValueError if it is not one."""
    digits = text.replace(":", "")
    if len(digits) * 4 != GUID_BITS:
        msg = f"{text!r} is no GUID: write 16 hexadecimal digits, as in 0011:2233:4455:6677"
        raise ValueError(msg)
    return int.from_bytes(bytes.fromhex(digits), "big")
