"""What stands for dataclasses on a host: the part of it that the modules sent there use, without writing code.

The library's own writes and compiles the methods of each class anew in every process, and imports `inspect` to
do so: with a hundred classes that is most of a host's work. Here all classes share one set of methods. It has dataclass
(frozen, order; slots only saves memory and is left out), field(default_factory=, compare=, repr=), fields, replace,
is_dataclass, MISSING, FrozenInstanceError. Annotations are text, as in each of these modules.

In the archive this module is called `dataclasses`.
"""

from __future__ import annotations

import functools
from typing import Any

MISSING: Any = object()
_FIELDS = "__dataclass_fields__"


class FrozenInstanceError(AttributeError):
    """A value of a frozen class was to be changed."""


class Field:
    """One field: its name, and its default or what makes it (MISSING: none)."""

    __slots__ = ("compare", "default", "default_factory", "name", "repr")

    def __init__(
        self,
        default: Any = MISSING,  # noqa: ANN401 - any default
        default_factory: Any = MISSING,  # noqa: ANN401 - what makes any default
        *,
        compare: bool = True,
        repr: bool = True,  # noqa: A002 - the library's name
    ) -> None:
        """A field that has no name yet."""
        self.name, self.default, self.default_factory = "", default, default_factory
        self.compare, self.repr = compare, repr

    def __class_getitem__(cls, _: object) -> type[Field]:
        """For hints, as in the library."""
        return cls


def field(**options: Any) -> Any:  # noqa: ANN401 - the options of Field; stands for any value
    """A field with options."""
    return Field(**options)


def fields(of: Any) -> tuple[Field, ...]:  # noqa: ANN401 - any of these classes, or a value of one
    """The fields of a class or value, in order."""
    return tuple(getattr(of, _FIELDS).values())


def is_dataclass(what: object) -> bool:
    """Whether this is such a class, or a value of one."""
    return hasattr(what, _FIELDS)


def replace(value: Any, /, **changes: Any) -> Any:  # noqa: ANN401 - a value of one of these classes
    """The same value with some fields changed."""
    return type(value)(**{one.name: getattr(value, one.name) for one in fields(value)} | changes)


def dataclass(
    cls: Any = None,  # noqa: ANN401 - a class
    /,
    *,
    frozen: bool = False,
    order: bool = False,
    slots: bool = False,
    eq: bool = True,
) -> Any:  # noqa: ANN401 - the class, or what decorates it
    """A class whose values have the fields that its body names."""
    del slots
    if cls is None:
        return lambda later: dataclass(later, frozen=frozen, order=order, eq=eq)
    found = _found(cls)
    body: dict[str, Any] = {_FIELDS: found, "__match_args__": tuple(found), "__init__": _init, "__repr__": _repr}
    if eq:
        body |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
    if frozen:
        body |= {"__setattr__": _refused, "__delattr__": _refused}
    if order:
        body["__lt__"] = _lt
    for name, method in body.items():
        if name not in cls.__dict__ or name == _FIELDS:
            type.__setattr__(cls, name, method)
    return functools.total_ordering(cls) if order else cls


def _found(cls: type) -> dict[str, Field]:
    found: dict[str, Field] = dict(getattr(cls, _FIELDS, {}))
    for name, hint in cls.__dict__.get("__annotations__", {}).items():  # noqa: RUF063 - inspect takes long to import
        if hint.startswith(("ClassVar", "typing.ClassVar")):
            continue
        default = cls.__dict__.get(name, MISSING)
        one = default if isinstance(default, Field) else Field(default)
        one.name, found[name] = name, one
        if default is one:
            type.__delattr__(cls, name)
    return found


def _init(self: Any, *given: Any, **named: Any) -> None:  # noqa: ANN401 - any of these classes
    found = getattr(type(self), _FIELDS)
    if len(given) > len(found) or named.keys() - found.keys():
        raise TypeError(f"{type(self).__name__} takes {', '.join(found)}; got {len(given)} values and {list(named)}")
    values = dict(zip(found, given, strict=False))
    if values.keys() & named.keys():
        raise TypeError(f"{type(self).__name__} got {', '.join(values.keys() & named.keys())} twice")
    values |= named
    for name, one in found.items():
        if name in values:
            value = values[name]
        elif one.default is not MISSING:
            value = one.default
        elif one.default_factory is not MISSING:
            value = one.default_factory()
        else:
            raise TypeError(f"{type(self).__name__} needs {name}")
        object.__setattr__(self, name, value)
    if hasattr(self, "__post_init__"):
        self.__post_init__()


def _values(value: Any) -> tuple[Any, ...]:  # noqa: ANN401 - any of these classes
    return tuple([getattr(value, one.name) for one in fields(value) if one.compare])


def _repr(self: Any) -> str:  # noqa: ANN401 - any of these classes
    shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: object) -> bool:  # noqa: ANN401 - any of these classes
    return _values(self) == _values(other) if type(self) is type(other) else NotImplemented


def _lt(self: Any, other: object) -> bool:  # noqa: ANN401 - any of these classes
    return _values(self) < _values(other) if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:  # noqa: ANN401 - any of these classes
    return hash(_values(self))


def _refused(self: Any, name: str, *_: object) -> None:  # noqa: ANN401 - any of these classes
    raise FrozenInstanceError(f"{type(self).__name__}.{name} cannot be changed")
