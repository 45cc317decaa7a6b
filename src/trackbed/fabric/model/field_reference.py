"""Fields of the Fabric by their path, as `spec.addressing.scheme`, with the text of their docstrings."""

from __future__ import annotations

import re
import types
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel

from trackbed.fabric.model.docstrings import join_lines, read_attribute_docstrings, read_section, split_keys
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.model.messages import list_models
from trackbed.fabric.model.nodes import PortSelector
from trackbed.fabric.model.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pydantic.fields import FieldInfo


class FieldReference(NamedTuple):
    """A field of the Fabric: its path, the values it takes, its default, its text, an example, the fields below it."""

    path: str
    values: str
    default: str
    text: str
    example: str
    fields: tuple[FieldReference, ...] = ()


def find_field(path: str) -> FieldReference | None:
    """Return the field of a path from the top of the document or from `spec`, or None; [] and indexes are skipped.

    The end of a path is enough where no other path has it.
    """
    names = re.sub(r"\[[^]]*\]", "", path).removeprefix("fabric.").split(".")
    for prefix in ([], ["spec"]):
        field = _descend(prefix + names)
        if field is not None:
            return field
    whole_paths = list_paths_with_end(".".join(names))
    return _descend(whole_paths[0].split(".")) if len(whole_paths) == 1 else None


def list_paths_with_end(end: str) -> list[str]:
    """Return the paths of all fields that end with these names."""
    return [path for path in list_paths() if path.endswith(f".{end}")]


def list_paths() -> list[str]:
    """Return the path of every field."""
    return list(dict.fromkeys(_iter_paths("", [Fabric], frozenset())))


def suggest_path(path: str) -> str:
    """Return the most similar path of a field, or ""."""
    paths = list_paths()
    return next(iter(get_close_matches(path, [*paths, *(name.removeprefix("spec.") for name in paths)], n=1)), "")


def _iter_paths(prefix: str, models: Iterable[type[BaseModel]], parents: frozenset[type[BaseModel]]) -> Iterator[str]:
    for model in models:
        for name, field in model.model_fields.items():
            path = f"{prefix}{field.alias or name}"
            yield path
            inner = [below for below in list_models(field.annotation) if below not in parents]
            yield from _iter_paths(f"{path}.", inner, parents.union(inner))


def _descend(names: list[str]) -> FieldReference | None:
    models: list[type[BaseModel]] = [Fabric]
    hits: list[_Hit] = []
    for written in names:
        hits = [hit for hit in _list_fields(models) if hit.alias == written]
        if not hits:
            return None
        models = list(dict.fromkeys(inner for hit in hits for inner in list_models(hit.field.annotation)))
    below = dict.fromkeys(hit.alias for hit in _list_fields(models))
    inner_fields = (_describe(alias, [hit for hit in _list_fields(models) if hit.alias == alias]) for alias in below)
    return _describe(".".join(names), hits)._replace(fields=tuple(inner_fields))


class _Hit(NamedTuple):
    """A field, its name in the file, and the model that has it."""

    alias: str
    name: str
    field: FieldInfo
    model: type[BaseModel]


def _list_fields(models: Iterable[type[BaseModel]]) -> list[_Hit]:
    return [
        _Hit(field.alias or name, name, field, model) for model in models for name, field in model.model_fields.items()
    ]


def _describe(path: str, hits: list[_Hit]) -> FieldReference:
    """Return one reference for a field that several variants of a section have, as the schemes of addressing."""
    texts = {
        render_value(hit.field): join_lines(read_attribute_docstrings(hit.model).get(hit.name, "")) for hit in hits
    }
    text = (
        " ".join(texts.values()) if len(texts) == 1 else " ".join(f"{name}: {about}" for name, about in texts.items())
    )
    example = split_keys(read_section(hits[0].model)[1])[hits[0].alias]
    return FieldReference(path, " or ".join(texts), render_default(hits[0].field), text, example)


def render_value(field: FieldInfo) -> str:
    """Return what values a field takes, with choices in backquotes."""
    low, high = (next((getattr(m, sign) for m in field.metadata if hasattr(m, sign)), None) for sign in ("ge", "le"))
    return _render_type(field.annotation) + (f", {low} to {high}" if low is not None else "")


_WORDS: dict[object, str] = {
    str: "text",
    int: "number",
    float: "number",
    bool: "true or false",
    Range: "range",
    type(None): "",
    PortSelector: "port",
    Any: "anything",
}


def _render_type(kind: object) -> str:
    if kind in _WORDS:
        return _WORDS[kind]
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "mapping"
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(f"`{argument}`" for argument in arguments)
    if origin in {tuple, dict}:
        return (
            f"list of {_render_type(arguments[0])}" if origin is tuple else f"mapping of {_render_type(arguments[1])}"
        )
    if origin in {Union, types.UnionType}:
        return " or ".join(dict.fromkeys(word for argument in arguments if (word := _render_type(argument))))
    return "address" if arguments[0] is int else _render_type(arguments[0])  # an Annotated int is an address


def render_default(field: FieldInfo) -> str:
    """Return the default of a field in backquotes, `required` without one, or "" if it is empty."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None or isinstance(value, BaseModel) or value in ((), {}):
        return ""
    if isinstance(value, tuple):
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
