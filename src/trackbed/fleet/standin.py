"""What stands for msgspec on a host that has only Python: the part of it that the modules sent there use.

In the archive this module is called `msgspec`. It has Struct (frozen, order, rename="camel", omit_defaults), field,
structs.replace, json.encode, json.format and json.decode with a type, convert, to_builtins; errors are MsgspecError as
there. The same documents are read and written: a record that this one wrote is undone by the other, and the other way
round. Bytes are base64 text (RFC 4648), sets and tuples are arrays.

Hints are those of these modules: int, str, bytes, bool, None, Any, unions of one of them (or a Struct) with None, dict,
tuple, list, frozenset, Struct, dataclass.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json as _json
import types
import typing
from functools import cache
from typing import Any

_PLAIN = (str, int, float, bool)


class MsgspecError(Exception):
    """Base of the errors here."""


class ValidationError(MsgspecError, ValueError):
    """A document that has not the shape of its type."""


class _Config(typing.NamedTuple):
    camel: bool
    omit_defaults: bool


class _Meta(type):
    def __new__(  # noqa: PLR0913 - a class statement passes name, bases, body and each option
        cls,
        name: str,
        bases: tuple[type, ...],
        body: dict[str, Any],
        *,
        frozen: bool = False,
        order: bool = False,
        rename: str | None = None,
        omit_defaults: bool = False,
        **_ignored: object,
    ) -> Any:  # noqa: ANN401 - the class that is made
        made: Any = super().__new__(cls, name, bases, body)
        if not bases:
            return made
        made = dataclasses.dataclass(frozen=frozen, order=order)(made)
        own = {
            "__struct_config__": _Config(rename == "camel", omit_defaults),
            "__struct_fields__": tuple(field.name for field in dataclasses.fields(made)),
        }
        for key, value in own.items():
            type.__setattr__(made, key, value)
        return made


class Struct(metaclass=_Meta):
    """A record with typed fields, as msgspec.Struct."""


def field(*, default_factory: type) -> Any:  # noqa: ANN401 - stands for a value of the field's type
    """A field whose default is made anew for each value."""
    return dataclasses.field(default_factory=default_factory)


class structs:  # noqa: N801 - msgspec.structs is a module
    """msgspec.structs."""

    replace = staticmethod(dataclasses.replace)


def to_builtins(value: object) -> Any:  # noqa: ANN401 - a document
    """A value as dicts, lists and scalars."""
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {key: to_builtins(item) for key, item in value.items()}
    if isinstance(value, tuple | list | frozenset | set):
        return [to_builtins(item) for item in value]
    if dataclasses.is_dataclass(value):
        return _document(value)
    raise TypeError(f"a value of type {type(value).__name__} has no form in JSON")


def _document(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any Struct or dataclass
    config = getattr(value, "__struct_config__", _Config(camel=False, omit_defaults=False))
    found = {}
    for one in dataclasses.fields(value):
        own = getattr(value, one.name)
        if not (config.omit_defaults and _is_default(one, own)):
            found[_key(one.name, camel=config.camel)] = to_builtins(own)
    return found


def _is_default(one: dataclasses.Field[Any], own: object) -> bool:
    if one.default_factory is not dataclasses.MISSING:
        return bool(own == one.default_factory())
    return one.default is not dataclasses.MISSING and bool(own == one.default)


def _key(name: str, *, camel: bool) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest) if camel else name


def convert(value: object, type: Any) -> Any:  # noqa: A002, ANN401 - msgspec's name; a hint and its value
    """Documents as values of a type; ValidationError where they do not fit."""
    return _converted(value, type, "$")


def _converted(value: Any, hint: Any, place: str) -> Any:  # noqa: ANN401, PLR0911 - hints; one return for each kind
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin in {typing.Union, types.UnionType}:
        return _one_of(value, inner, place)
    if origin is dict:
        _expect(value, dict, place)
        return {_converted(k, inner[0], place): _converted(v, inner[1], f"{place}[...]") for k, v in value.items()}
    if origin is tuple:
        return _tuple(value, inner, place)
    if origin in {list, frozenset}:
        return origin(_converted(item, inner[0], f"{place}[]") for item in _expect(value, (list, tuple), place))
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return value if isinstance(value, hint) else _struct(_expect(value, dict, place), hint, place)
    if hint is bytes:
        return _bytes(value, place)
    return _expect(value, type(None) if hint is None else hint, place)


def _one_of(value: Any, hints: tuple[Any, ...], place: str) -> Any:  # noqa: ANN401 - hints and their values
    if value is None and type(None) in hints:
        return None
    rest = [hint for hint in hints if hint is not type(None)]
    return _converted(value, rest[0], place)


def _tuple(value: Any, inner: tuple[Any, ...], place: str) -> tuple[Any, ...]:  # noqa: ANN401 - hints and their values
    items = _expect(value, (list, tuple), place)
    if inner[1:] == (...,):
        return tuple(_converted(item, inner[0], f"{place}[]") for item in items)
    if len(items) != len(inner):
        raise ValidationError(f"expected an array of {len(inner)}, got {len(items)} - at `{place}`")
    return tuple(_converted(item, hint, f"{place}[]") for item, hint in zip(items, inner, strict=True))


def _struct(value: dict[str, Any], hint: type, place: str) -> Any:  # noqa: ANN401 - a value of `hint`
    given = {}
    for one, key, inner in _fields(hint):
        if key in value:
            given[one.name] = _converted(value[key], inner, f"{place}.{key}")
        elif one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING:
            raise ValidationError(f"object missing required field `{key}` - at `{place}`")
    return hint(**given)


@cache
def _fields(hint: Any) -> tuple[tuple[dataclasses.Field[Any], str, Any], ...]:  # noqa: ANN401 - any Struct
    hints = typing.get_type_hints(hint)
    camel = getattr(hint, "__struct_config__", _Config(camel=False, omit_defaults=False)).camel
    return tuple((one, _key(one.name, camel=camel), hints[one.name]) for one in dataclasses.fields(hint))


def _bytes(value: Any, place: str) -> bytes:  # noqa: ANN401 - anything that JSON may hold
    if isinstance(value, bytes):
        return value
    try:
        return base64.b64decode(_expect(value, str, place), validate=True)
    except binascii.Error as error:
        raise ValidationError(f"invalid base64 - at `{place}`") from error


def _expect(value: Any, kind: Any, place: str) -> Any:  # noqa: ANN401 - anything that JSON may hold
    if isinstance(value, kind) and not (isinstance(value, bool) and kind is int):
        return value
    raise ValidationError(f"expected {kind}, got {type(value).__name__} - at `{place}`")


class json:  # noqa: N801 - msgspec.json is a module
    """msgspec.json."""

    @staticmethod
    def encode(value: object) -> bytes:
        """A value as JSON, without blanks."""
        return _json.dumps(to_builtins(value), ensure_ascii=False, separators=(",", ":")).encode()

    @staticmethod
    def format(raw: bytes, *, indent: int) -> bytes:
        """JSON with a line for each value, byte for byte as msgspec has it."""
        return _json.dumps(_json.loads(raw), ensure_ascii=False, indent=indent).encode()

    @staticmethod
    def decode(raw: bytes | str, type: Any = Any) -> Any:  # noqa: A002, ANN401 - msgspec's name; a value of that type
        """JSON as a value of a type; MsgspecError on text that is none or does not fit."""
        try:
            document = _json.loads(raw)
        except ValueError as error:
            raise MsgspecError(f"malformed JSON: {error}") from error
        return _converted(document, type, "$")
