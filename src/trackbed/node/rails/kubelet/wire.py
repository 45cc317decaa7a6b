"""Protocol buffers as bytes: the part of the encoding that the kubelet's two APIs use (protobuf.dev, Encoding).

A message is a list of fields: a number, and a string, an integer, or a message as bytes. A repeated field occurs
several times. Unknown fields are ignored, as the format requires, so newer kubelets are understood.
"""

from collections.abc import Iterable

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10

_MAX_FIELD_NUMBER = 31
"""Higher fields than the agent reads are dropped, so that a message of many takes no more memory than its own size."""

Fields = dict[int, list[int | bytes]]


class WireError(ValueError):
    """The bytes are not a protocol buffers message."""


def encode_message(*fields: tuple[int, str | int | bytes]) -> bytes:
    """Return the bytes of a message. Empty strings and zeros are left out, as in proto3; empty messages are kept."""
    return b"".join(_encode_field(number, value) for number, value in fields if value not in {"", 0})


def expand_repeated_field(field_number: int, values: Iterable[str | bytes]) -> list[tuple[int, str | bytes]]:
    """Return a (number, value) pair for each value of a repeated field, as `encode_message` takes them."""
    return [(field_number, value) for value in values]


def parse_fields(raw: bytes) -> Fields:
    """Return the fields of a message by number, each with its values in order. Raises WireError."""
    fields: Fields = {}
    at = 0
    while at < len(raw):
        key, at = _decode_varint(raw, at)
        value, at = _decode_value(raw, at, key & 7)
        if key >> 3 <= _MAX_FIELD_NUMBER:
            fields.setdefault(key >> 3, []).append(value)
    return fields


def get_strings(fields: Fields, field_number: int) -> tuple[str, ...]:
    """Return the strings of a field. Raises WireError."""
    try:
        return tuple(message.decode() for message in get_messages(fields, field_number))
    except UnicodeDecodeError as error:
        raise WireError(f"field {field_number} is no UTF-8") from error


def get_last_string(fields: Fields, field_number: int) -> str:
    """Return the last string of a field, which is the one that counts; "" if there is none. Raises WireError."""
    return (get_strings(fields, field_number) or ("",))[-1]


def get_messages(fields: Fields, field_number: int) -> tuple[bytes, ...]:
    """Return the messages of a field as bytes. Raises WireError."""
    values = fields.get(field_number, [])
    messages = tuple(value for value in values if isinstance(value, bytes))
    if len(messages) != len(values):
        raise WireError(f"field {field_number} holds numbers")
    return messages


def _encode_field(field_number: int, value: str | int | bytes) -> bytes:
    if isinstance(value, int):
        return _encode_varint(field_number << 3 | _VARINT) + _encode_varint(value)
    content = value.encode() if isinstance(value, str) else value
    return _encode_varint(field_number << 3 | _LENGTH) + _encode_varint(len(content)) + content


def _encode_varint(number: int) -> bytes:
    encoded = bytearray()
    number &= (1 << 64) - 1
    while number > 0x7F:  # noqa: PLR2004 - seven bits a byte
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _decode_varint(raw: bytes, offset: int) -> tuple[int, int]:
    """Return the number at an offset, and the offset after the number."""
    number = 0
    for count, byte in enumerate(raw[offset : offset + _MAX_VARINT_BYTES]):
        number |= (byte & 0x7F) << 7 * count
        if byte < 0x80:  # noqa: PLR2004 - the last byte has no continuation bit
            return number & (1 << 64) - 1, offset + count + 1
    raise WireError("a number has no end")


def _decode_value(raw: bytes, offset: int, wire_type: int) -> tuple[int | bytes, int]:
    """Return the value of a wire type at an offset, and the offset after the value."""
    if wire_type == _VARINT:
        return _decode_varint(raw, offset)
    sizes = {_FIXED64: 8, _FIXED32: 4}
    if wire_type != _LENGTH and wire_type not in sizes:
        raise WireError(f"there is no wire type {wire_type}")
    size, offset = _decode_varint(raw, offset) if wire_type == _LENGTH else (sizes[wire_type], offset)
    if offset + size > len(raw):
        raise WireError("a field is longer than its message")
    return raw[offset : offset + size], offset + size
