"""Conversion of typed values to JSON documents and back.

Hosts run this module, so it imports the standard library only.

    dataclass, NamedTuple          object   its fields by name; `key` may rename them, see `to_camel`
    tuple, list, frozenset         array
    bytes                          string   base64 (RFC 4648)
    a class with `from_text`       string   str(value), for example an address range

    float                          number   a finite one; a whole one may come back without its point

The other supported type hints are str, int, bool, Any, dict, Mapping and `X | None`.
"""

from __future__ import annotations

import base64
import dataclasses
import math
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from itertools import repeat
from typing import Any, TypeVar

_UNION_TYPES = {typing.Union, getattr(types, "UnionType", typing.Union)}
"""Origins of `X | None`; before Python 3.10 there is only that of Optional[X]."""

_OPTIONAL = re.compile(r"([\w.]+(?:\[[^][]*\])?) \| None")
"""`X | None` in the text of a type hint; X is a name, or a name with arguments that have no brackets themselves."""

_T = TypeVar("_T")
_Read = Callable[[Any], Any]
_Key = Callable[[str], str]
_Step = typing.Union[str, int]


class DocumentError(ValueError):
    """A document does not match the expected type; the message ends with the path of the value."""

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
    """Convert a value to dicts, lists and scalars; `key` converts the names of fields."""
    if value is None or isinstance(value, (str, int, float)):
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


def parse_document(document: object, result_type: type[_T], key: _Key = str) -> _T:
    """Convert what `json.loads` returns to a value of type `result_type`.

    Unknown keys are ignored. Raises DocumentError where the document does not match.
    """
    hint: Any = result_type
    value: _T = _build_reader(hint, key)(document)
    return value


def _list_fields(result_type: type) -> tuple[str, ...]:
    return tuple(getattr(result_type, "__dataclass_fields__", ())) or getattr(result_type, "_fields", ())


@cache
def _build_reader(hint: Any, key: _Key) -> _Read:  # noqa: ANN401 - a type or a hint
    """Return the function that reads values of a type hint; it is built once for each type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNION_TYPES:
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
        hints = _evaluate_hints(hint)
        optional = {name for name in names if typing.get_origin(hints[name]) in _UNION_TYPES}
        fields = [(name, key(name), _build_reader(hints[name], key)) for name in names]
        return _build_object_reader(hint, fields, optional)
    return _build_text_reader(partial(base64.b64decode, validate=True)) if hint is bytes else _build_scalar_reader(hint)


def _read_number(value: object) -> float:
    """JSON has one kind of number, so other programs write 390.0 as 390; Python reads NaN, which JSON has not."""
    try:
        number = float(value) if type(value) in {int, float} else math.nan  # type: ignore[arg-type] # it is a number
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise DocumentError(f"expected a finite number, got {value!r:.40}")
    return number


def _evaluate_hints(result_type: type) -> dict[str, Any]:
    """Return the type hints of the fields of a class, evaluated.

    Python 3.9 cannot evaluate `X | None`, so Optional[X] is evaluated in its place.
    """
    namespace = vars(sys.modules[result_type.__module__]) | {"Optional": typing.Optional}
    annotations = {name: _read_annotation(result_type, name) for name in _list_fields(result_type)}
    return typing.get_type_hints(types.SimpleNamespace(__annotations__=annotations), namespace)


def _read_annotation(result_type: type, name: str) -> object:
    annotation = result_type.__annotations__[name]
    text = getattr(annotation, "__forward_arg__", annotation)
    return _OPTIONAL.sub(r"Optional[\1]", text) if isinstance(text, str) else text


def _build_scalar_reader(scalar_type: Any) -> _Read:  # noqa: ANN401 - a type or Any
    if scalar_type is float:
        return _read_number

    def read(value: object) -> object:
        if scalar_type is not Any and type(value) is not scalar_type:
            raise DocumentError(f"expected {scalar_type.__name__}, got {type(value).__name__}")
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
    return lambda value: dict(_read_items(expect(value).items(), repeat(inner)))


def _build_array_reader(array_type: type, item_readers: list[_Read], hint: object) -> _Read:
    """Return a reader of arrays: any length needs one item reader, a fixed length one for each item."""
    expect = _build_scalar_reader(list)
    length = None if array_type is not tuple or ... in typing.get_args(hint) else len(item_readers)
    readers = repeat(item_readers[0]) if length is None else item_readers

    def read(value: object) -> object:
        items = expect(value)
        if length is not None and len(items) != length:
            raise DocumentError(f"expected an array of {length}, got {len(items)}")
        return array_type([item for _, item in _read_items(enumerate(items), readers)])

    return read


def _read_items(items: Iterable[tuple[_Step, Any]], readers: Iterable[_Read]) -> list[tuple[_Step, Any]]:
    """Read (key or index, item) pairs, each with its reader; add the key or index to the path of a DocumentError."""
    values = []
    for (step, item), read in zip(items, readers):
        try:
            values.append((step, read(item)))
        except DocumentError as error:
            error.path = (step, *error.path)
            raise
    return values


def _build_object_reader(
    result_type: Any,  # noqa: ANN401 - a class with fields
    fields: list[tuple[str, str, _Read]],
    optional: set[str],
) -> _Read:
    """Return the reader of an object. A required field that is among the optional ones is None without its key.

    An API server deletes the keys of a JSON merge patch whose value is null, and so those of a RailNode's plan.
    """
    expect, required = _build_scalar_reader(dict), _list_required_fields(result_type)
    defaults = dict.fromkeys(required & optional)

    def read(value: object) -> object:
        document, key = expect(value), ""
        values: dict[str, object] = {**defaults}
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
        return result_type(**values)

    return read


def _list_required_fields(result_type: Any) -> set[str]:  # noqa: ANN401 - a class with fields
    if not dataclasses.is_dataclass(result_type):
        return {name for name in result_type._fields if name not in result_type._field_defaults}
    missing = dataclasses.MISSING
    fields = dataclasses.fields(result_type)
    return {field.name for field in fields if field.default is field.default_factory is missing}
