"""Typed values as JSON documents and back, with the standard library alone: hosts have nothing else.

    dataclass, NamedTuple          object   its fields by name; `key` may rename them, see `to_camel`
    tuple, list, frozenset         array
    bytes                          string   base64 (RFC 4648)
    a class with `from_text`       string   str(value), for example an address range

Other hints are str, int, bool, Any, dict, Mapping and `X | None`.
"""

from __future__ import annotations

import base64
import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from itertools import repeat
from typing import Any, TypeVar

_T = TypeVar("_T")
_Read = Callable[[Any], Any]
_Key = Callable[[str], str]
_Step = str | int


class DocumentError(ValueError):
    """A document does not match its type; the message says where."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.path: tuple[_Step, ...] = ()

    def __str__(self) -> str:
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return f"{self.args[0]} - at `${''.join(steps)}`"


def to_camel(name: str) -> str:
    """Convert a field's name to camelCase: mtu_bytes to mtuBytes."""
    head, *tail = name.split("_")
    return head + "".join(part.title() for part in tail)


def to_document(value: object, key: _Key = str) -> Any:  # noqa: ANN401 - any JSON value
    """Convert a value to dicts, lists and scalars."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if hasattr(value, "from_text"):
        return str(value)
    if isinstance(value, Mapping):
        return {name: to_document(item, key) for name, item in value.items()}
    if names := _list_fields(type(value)):
        return {key(name): to_document(getattr(value, name), key) for name in names}
    if isinstance(value, Iterable):
        return [to_document(item, key) for item in value]
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


def parse_document(document: object, shape: type[_T], key: _Key = str) -> _T:
    """Convert what `json.loads` returns to a value of type `shape`.

    Unknown keys are ignored. Raises DocumentError where the document does not match.
    """
    hint: Any = shape
    value: _T = _build_reader(hint, key)(document)
    return value


def _list_fields(shape: type) -> tuple[str, ...]:
    return tuple(getattr(shape, "__dataclass_fields__", ())) or getattr(shape, "_fields", ())


@cache
def _build_reader(hint: Any, key: _Key) -> _Read:  # noqa: ANN401 - a type or a hint
    """Return the function that reads values of a hint: it is built once for each type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return _build_optional_reader(_build_reader(inner, key))
    if origin in {dict, Mapping}:
        return _build_mapping_reader(_build_reader(arguments[1], key))
    if origin is not None:
        return _build_array_reader(
            origin, [_build_reader(argument, key) for argument in arguments if argument is not ...], hint
        )
    if hasattr(hint, "from_text"):
        return _build_text_reader(hint.from_text)
    if names := _list_fields(hint):
        hints = typing.get_type_hints(hint)
        return _build_object_reader(hint, [(name, key(name), _build_reader(hints[name], key)) for name in names])
    return _build_text_reader(partial(base64.b64decode, validate=True)) if hint is bytes else _build_scalar_reader(hint)


def _build_scalar_reader(kind: Any) -> _Read:  # noqa: ANN401 - a type or Any
    def read(value: object) -> object:
        if kind is not Any and type(value) is not kind:
            raise DocumentError(f"expected {kind.__name__}, got {type(value).__name__}")
        return value

    return read


def _build_text_reader(parse: Callable[[str], object]) -> _Read:
    expect = _build_scalar_reader(str)

    def read(value: object) -> object:
        text = expect(value)
        try:
            return parse(text)
        except ValueError as error:
            raise DocumentError(str(error)) from error

    return read


def _build_optional_reader(inner: _Read) -> _Read:
    return lambda value: None if value is None else inner(value)


def _build_mapping_reader(inner: _Read) -> _Read:
    expect = _build_scalar_reader(dict)
    return lambda value: dict(_read_each(expect(value).items(), repeat(inner)))


def _build_array_reader(kind: type, inner: list[_Read], hint: object) -> _Read:
    """Read arrays of any length with one reader, arrays of fixed length with one reader each."""
    expect = _build_scalar_reader(list)
    length = None if kind is not tuple or ... in typing.get_args(hint) else len(inner)
    readers = repeat(inner[0]) if length is None else inner

    def read(value: object) -> object:
        items = expect(value)
        if length is not None and len(items) != length:
            raise DocumentError(f"expected an array of {length}, got {len(items)}")
        return kind([item for _, item in _read_each(enumerate(items), readers)])

    return read


def _read_each(items: Iterable[tuple[_Step, Any]], readers: Iterable[_Read]) -> list[tuple[_Step, Any]]:
    """Read each item with its reader; an error gets the step that leads to the item."""
    values = []
    for (step, item), read in zip(items, readers, strict=False):
        try:
            values.append((step, read(item)))
        except DocumentError as error:
            error.path = (step, *error.path)
            raise
    return values


def _build_object_reader(shape: Any, fields: list[tuple[str, str, _Read]]) -> _Read:  # noqa: ANN401 - a class with fields
    expect, required = _build_scalar_reader(dict), _list_required(shape)

    def read(value: object) -> object:
        document, values, key = expect(value), {}, ""
        try:
            for name, key, field in fields:
                if key in document:
                    values[name] = field(document[key])
        except DocumentError as error:
            error.path = (key, *error.path)
            raise
        if not required <= values.keys():
            missing = next(key for name, key, _ in fields if name in required - values.keys())
            raise DocumentError(f"missing required field `{missing}`")
        return shape(**values)

    return read


def _list_required(shape: Any) -> set[str]:  # noqa: ANN401 - a class with fields
    if not dataclasses.is_dataclass(shape):
        return {name for name in shape._fields if name not in shape._field_defaults}
    missing = dataclasses.MISSING
    return {field.name for field in dataclasses.fields(shape) if field.default is field.default_factory is missing}
