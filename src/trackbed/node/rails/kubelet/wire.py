"""Protocol buffers as bytes: only what the kubelet's two APIs are made of (protobuf.dev, Encoding).

A message is a list of fields: number, and a string, a whole number, or a message as bytes. A field that repeats comes
several times. What is unknown is passed by, as the format wants it, so newer kubelets are understood.
"""

from __future__ import annotations

from collections.abc import Iterable

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10

Fields = dict[int, list[int | bytes]]


class WireError(ValueError):
    """The bytes are no message."""


def encode_message(*fields: tuple[int, str | int | bytes]) -> bytes:
    """The bytes of a message. Empty strings and zeros are left out, as proto3 does; empty messages are not."""
    return b"".join(_field(number, value) for number, value in fields if value not in {"", 0})


def repeat_field(number: int, values: Iterable[str | bytes]) -> list[tuple[int, str | bytes]]:
    """A field that repeats."""
    return [(number, value) for value in values]


def parse_fields(raw: bytes) -> Fields:
    """The fields of a message by number, each in the order it came. Raises WireError."""
    found: Fields = {}
    at = 0
    while at < len(raw):
        key, at = _varint(raw, at)
        value, at = _value(raw, at, key & 7)
        found.setdefault(key >> 3, []).append(value)
    return found


def get_texts(found: Fields, number: int) -> tuple[str, ...]:
    """The strings of a field. Raises WireError."""
    try:
        return tuple(one.decode() for one in get_messages(found, number))
    except UnicodeDecodeError as error:
        raise WireError(f"field {number} is no UTF-8") from error


def get_text(found: Fields, number: int) -> str:
    """The string of a field, its last as the format wants it; "" if it is not there. Raises WireError."""
    return (get_texts(found, number) or ("",))[-1]


def get_messages(found: Fields, number: int) -> tuple[bytes, ...]:
    """The messages of a field. Raises WireError."""
    listed = found.get(number, [])
    if not all(isinstance(one, bytes) for one in listed):
        raise WireError(f"field {number} holds numbers")
    return tuple(one for one in listed if isinstance(one, bytes))


def _field(number: int, value: str | int | bytes) -> bytes:
    if isinstance(value, int):
        return _encoded(number << 3 | _VARINT) + _encoded(value)
    content = value.encode() if isinstance(value, str) else value
    return _encoded(number << 3 | _LENGTH) + _encoded(len(content)) + content


def _encoded(number: int) -> bytes:
    found = bytearray()
    number &= (1 << 64) - 1
    while number > 0x7F:  # noqa: PLR2004 - seven bits a byte
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    number = 0
    for count, byte in enumerate(raw[at : at + _MAX_VARINT_BYTES]):
        number |= (byte & 0x7F) << 7 * count
        if byte < 0x80:  # noqa: PLR2004 - the last one
            return number & (1 << 64) - 1, at + count + 1
    raise WireError("a number has no end")


def _value(raw: bytes, at: int, kind: int) -> tuple[int | bytes, int]:
    if kind == _VARINT:
        return _varint(raw, at)
    sizes = {_FIXED64: 8, _FIXED32: 4}
    if kind != _LENGTH and kind not in sizes:
        raise WireError(f"there is no wire type {kind}")
    size, at = _varint(raw, at) if kind == _LENGTH else (sizes[kind], at)
    if at + size > len(raw):
        raise WireError("a field is longer than its message")
    return raw[at : at + size], at + size
