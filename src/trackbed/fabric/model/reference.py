"""The reference of the Fabric file, written from the models: their attribute docstrings are the text."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import sys
import textwrap
import types
from typing import TYPE_CHECKING, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from trackbed.fabric.model.fabric import Fabric, Lock
from trackbed.fabric.model.nodes import PortSelector
from trackbed.fabric.model.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

_HEAD = """# The Fabric file

Written from the models by `scripts/docs`; do not edit. Keys are camelCase, unknown keys are errors, every value left
out has the default shown. Addresses and MACs need no quotes; write PCI addresses in quotes so that other YAML tools
leave them alone.
"""


def reference() -> str:
    """The whole reference as Markdown."""
    sections = [_section(model, path) for path, model in walk(Fabric, "", set())]
    return "\n".join([_HEAD, *sections, _section(Lock, "", "The lock file (trackbed.lock.yaml)")])


def walk(model: type[BaseModel], path: str, seen: set[type]) -> Iterator[tuple[str, type[BaseModel]]]:
    """Each model below one, once, with the path at which it is first found."""
    seen.add(model)
    yield path, model
    for name, field in model.model_fields.items():
        for inner in _models(field.annotation):
            if inner not in seen:
                listed = "[]" if get_origin(field.annotation) is tuple else ""
                yield from walk(inner, f"{path}.{field.alias or name}{listed}".lstrip("."), seen)


def _section(model: type[BaseModel], path: str, title: str = "") -> str:
    about = (model.__doc__ or "").strip()
    told = texts(model)
    rows = [_row(field.alias or name, field, told.get(name, "")) for name, field in model.model_fields.items()]
    head = title or (f"`{path}`{_variant(model)}" if path else "The document")
    return "\n".join(
        [
            f"## {head}",
            "",
            words(about),
            "",
            "| key | value | default | |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _variant(model: type[BaseModel]) -> str:
    scheme = model.model_fields.get("scheme")
    return f" with scheme {get_args(scheme.annotation)[0]}" if scheme else ""


def texts(model: type) -> dict[str, str]:
    """The docstring behind each attribute of a model or struct; pydantic would read its own at every start."""
    found: dict[str, str] = {}
    for own in reversed([one for one in model.__mro__ if one.__module__.startswith("trackbed.")]):
        body = ast.parse(textwrap.dedent(inspect.getsource(own))).body[0]
        assert isinstance(body, ast.ClassDef)  # noqa: S101 - the source of a class is one
        for field, behind in itertools.pairwise(body.body):
            match field, behind:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str() as text)),
                ):
                    found[name] = inspect.cleandoc(text)
    return found


def words(text: str) -> str:
    """A docstring as one line."""
    return re.sub(r"\s*\n\s*", " ", text)


def _row(name: str, field: FieldInfo, text: str) -> str:
    about = words(text).replace("|", "\\|")
    return f"| `{name}` | {_value(field)} | {_default(field)} | {about} |"


def _value(field: FieldInfo) -> str:
    low, high = (next((getattr(m, sign) for m in field.metadata if hasattr(m, sign)), None) for sign in ("ge", "le"))
    return _type(field.annotation) + (f", {low} to {high}" if low is not None else "")


_WORDS = {str: "text", int: "number", bool: "true or false", Range: "range", type(None): "", PortSelector: "port"}


def _type(kind: object) -> str:
    if isinstance(kind, type) and kind in _WORDS:
        return _WORDS[kind]
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "mapping"
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(f"`{argument}`" for argument in arguments)
    if origin in {tuple, dict}:
        return f"list of {_type(arguments[0])}" if origin is tuple else f"mapping of {_type(arguments[1])}"
    if origin in {Union, types.UnionType}:
        return " or ".join(dict.fromkeys(word for argument in arguments if (word := _type(argument))))
    return "address" if arguments[0] is int else _type(arguments[0])  # Annotated: our own int is an address


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None or isinstance(value, BaseModel) or value in ((), {}):
        return ""
    if isinstance(value, tuple):
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _models(kind: object) -> list[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [kind]
    return [model for argument in get_args(kind) for model in _models(argument)]


if __name__ == "__main__":  # scripts/docs
    sys.stdout.write(reference())
