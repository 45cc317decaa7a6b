"""The records of the agent's journal, independent of their content (`node.rails.journal` writes them).

record    4 bytes magic | 4 bytes length | 4 bytes CRC-32 of the payload | payload        numbers are little-endian
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

_MAGIC = b"TBj1"
_HEAD = struct.Struct("<4sII")
MAX_PAYLOAD_BYTES = 1 << 20
"""Longer payloads are refused, and a longer length in a header is treated as damage."""
MAX_JOURNAL_BYTES = 1 << 26
"""What follows in a file is treated as damage; the agent compacts its journal at 1 MiB."""
_MAX_WASTED_BYTES = 1 << 28
"""Bytes of damaged records whose checksum is computed before the rest of a file is treated as damage. Each header of a
damaged file can claim a payload of 1 MiB, so reading one could take hours."""


class JournalContents(NamedTuple):
    """The payloads of a journal file in order, and the number of bytes that belong to no complete record."""

    payloads: list[bytes]
    damaged_bytes: int


def frame_record(payload: bytes) -> bytes:
    """Return a payload with the header of a record."""
    return _HEAD.pack(_MAGIC, len(payload), zlib.crc32(payload)) + payload


def parse_records(raw: bytes) -> JournalContents:
    """Parse a journal file. Records that are incomplete or damaged are skipped."""
    payloads: list[bytes] = []
    view = memoryview(raw)[:MAX_JOURNAL_BYTES]
    at = complete_bytes = wasted_bytes = 0
    while (at := raw.find(_MAGIC, at, len(view))) >= 0 and wasted_bytes <= _MAX_WASTED_BYTES:
        payload = _find_payload(view, at)
        if payload is None or zlib.crc32(payload) != _HEAD.unpack_from(view, at)[2]:
            wasted_bytes += len(payload or b"")
            at += 1
            continue
        payloads.append(bytes(payload))
        at += _HEAD.size + len(payload)
        complete_bytes += _HEAD.size + len(payload)
    return JournalContents(payloads, len(raw) - complete_bytes)


def _find_payload(view: memoryview, offset: int) -> memoryview | None:
    """Return the payload of the record at an offset, or None if its length cannot be."""
    start = offset + _HEAD.size
    if start > len(view):
        return None
    _, length, _ = _HEAD.unpack_from(view, offset)
    return view[start : start + length] if length <= min(MAX_PAYLOAD_BYTES, len(view) - start) else None
