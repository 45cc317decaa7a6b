"""Protocol buffers as bytes: the part of the encoding that the kubelet's two APIs use (protobuf.dev, Encoding).

A message is a list of fields: a number, and a string, an integer, or a message as bytes. A repeated field occurs
several times. Unknown fields are ignored, as the format requires, so newer kubelets are understood.
"""

from collections.abc import Iterable

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10

Fields = dict[int, list[int | bytes]]


class WireError(ValueError):
    """The bytes are no message."""


def encode_message(*fields: tuple[int, str | int | bytes]) -> bytes:
    """Return the bytes of a message. Empty strings and zeros are left out, as in proto3; empty messages are not."""
    return b"".join(_encode_field(number, value) for number, value in fields if value not in {"", 0})


def repeat_field(number: int, values: Iterable[str | bytes]) -> list[tuple[int, str | bytes]]:
    """Return a repeated field."""
    return [(number, value) for value in values]


def parse_fields(raw: bytes) -> Fields:
    """Return the fields of a message by number, each with its values in order. Raises WireError."""
    fields: Fields = {}
    at = 0
    while at < len(raw):
        key, at = _decode_varint(raw, at)
        value, at = _decode_value(raw, at, key & 7)
        fields.setdefault(key >> 3, []).append(value)
    return fields


def get_texts(fields: Fields, number: int) -> tuple[str, ...]:
    """Return the strings of a field. Raises WireError."""
    try:
        return tuple(message.decode() for message in get_messages(fields, number))
    except UnicodeDecodeError as error:
        raise WireError(f"field {number} is no UTF-8") from error


def get_text(fields: Fields, number: int) -> str:
    """Return the last string of a field, as the format requires; "" if there is none. Raises WireError."""
    return (get_texts(fields, number) or ("",))[-1]


def get_messages(fields: Fields, number: int) -> tuple[bytes, ...]:
    """Return the messages of a field. Raises WireError."""
    values = fields.get(number, [])
    messages = tuple(value for value in values if isinstance(value, bytes))
    if len(messages) != len(values):
        raise WireError(f"field {number} holds numbers")
    return messages


def _encode_field(number: int, value: str | int | bytes) -> bytes:
    if isinstance(value, int):
        return _encode_varint(number << 3 | _VARINT) + _encode_varint(value)
    content = value.encode() if isinstance(value, str) else value
    return _encode_varint(number << 3 | _LENGTH) + _encode_varint(len(content)) + content


def _encode_varint(number: int) -> bytes:
    encoded = bytearray()
    number &= (1 << 64) - 1
    while number > 0x7F:  # noqa: PLR2004 - seven bits a byte
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _decode_varint(raw: bytes, at: int) -> tuple[int, int]:
    """Return the number at an offset, and the offset behind it."""
    number = 0
    for count, byte in enumerate(raw[at : at + _MAX_VARINT_BYTES]):
        number |= (byte & 0x7F) << 7 * count
        if byte < 0x80:  # noqa: PLR2004 - the last byte has no continuation bit
            return number & (1 << 64) - 1, at + count + 1
    raise WireError("a number has no end")


def _decode_value(raw: bytes, at: int, kind: int) -> tuple[int | bytes, int]:
    """Return the value of a wire type at an offset, and the offset behind it."""
    if kind == _VARINT:
        return _decode_varint(raw, at)
    sizes = {_FIXED64: 8, _FIXED32: 4}
    if kind != _LENGTH and kind not in sizes:
        raise WireError(f"there is no wire type {kind}")
    size, at = _decode_varint(raw, at) if kind == _LENGTH else (sizes[kind], at)
    if at + size > len(raw):
        raise WireError("a field is longer than its message")
    return raw[at : at + size], at + size
