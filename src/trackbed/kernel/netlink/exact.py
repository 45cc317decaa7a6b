"""Fixed structs in attributes, taken at their exact size only: any other is not what the header says."""

from __future__ import annotations

import struct

from trackbed.kernel.netlink.codec import MalformedError

U8, U32, U64 = struct.Struct("=B"), struct.Struct("=I"), struct.Struct("=Q")
GUID_BITS = 64
_QUARTER_BITS = 16


def unpack_exact(layout: struct.Struct, value: bytes | memoryview, label: str) -> tuple[int, ...]:
    """The numbers of a struct; MalformedError, naming `what` (the header's name for it), at any other length."""
    if len(value) != layout.size:
        msg = f"{label} of {len(value)} bytes, where {layout.size} were due"
        raise MalformedError(msg)
    return layout.unpack(value)


def unpack_number(layout: struct.Struct, value: bytes | memoryview | None, label: str, default: int = 0) -> int:
    """The one number of an attribute, `default` where it is absent; raises as `unpacked`."""
    return default if value is None else unpack_exact(layout, value, label)[0]


def format_guid(guid: int) -> str:
    """A GUID as /sys/class/infiniband writes it: 0011:2233:4455:6677."""
    digits = f"{guid:016x}"
    return ":".join(digits[at : at + 4] for at in range(0, GUID_BITS // 4, _QUARTER_BITS // 4))


def parse_guid(text: str) -> int:
    """The GUID of 16 hexadecimal digits with any colons between them; ValueError if it is none."""
    digits = text.replace(":", "")
    if len(digits) * 4 != GUID_BITS:
        msg = f"{text!r} is no GUID: write 16 hexadecimal digits, as in 0011:2233:4455:6677"
        raise ValueError(msg)
    return int.from_bytes(bytes.fromhex(digits), "big")
