"""The reference of the Fabric file, made of the models: their attribute docstrings are the text."""

import types
from collections.abc import Iterator
from typing import Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from tools.pages.docstrings import join_lines, read_attribute_docstrings
from trackbed.fabric.model.fabric import Fabric, Lock
from trackbed.fabric.model.messages import list_models
from trackbed.fabric.model.nodes import PortSelector
from trackbed.fabric.model.ranges import Range

_HEAD = """# The Fabric file

Written from the models by `scripts/docs`; do not edit. Keys are camelCase, unknown keys are errors, every value left
out has the default shown. Addresses and MACs need no quotes; write PCI addresses in quotes so that other YAML tools
leave them alone.
"""


def render_fabric_page() -> str:
    """Render the whole page."""
    sections = [_render_section(model, path) for path, model in iter_models(Fabric, "", set())]
    return "\n".join([_HEAD, *sections, _render_section(Lock, "", "The lock file (trackbed.lock.yaml)")])


def iter_models(model: type[BaseModel], path: str, visited: set[type]) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield each model below a model once, with the first path that leads to it."""
    visited.add(model)
    yield path, model
    for name, field in model.model_fields.items():
        for inner in list_models(field.annotation):
            if inner not in visited:
                suffix = "[]" if get_origin(field.annotation) is tuple else ""
                yield from iter_models(inner, f"{path}.{field.alias or name}{suffix}".lstrip("."), visited)


def _render_section(model: type[BaseModel], path: str, title: str = "") -> str:
    texts = read_attribute_docstrings(model)
    rows = [_render_row(field.alias or name, field, texts.get(name, "")) for name, field in model.model_fields.items()]
    head = title or (f"`{path}`{_render_scheme(model)}" if path else "The document")
    return "\n".join(
        [
            f"## {head}",
            "",
            join_lines((model.__doc__ or "").strip()),
            "",
            "| key | value | default | |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _render_scheme(model: type[BaseModel]) -> str:
    scheme = model.model_fields.get("scheme")
    return f" with scheme {get_args(scheme.annotation)[0]}" if scheme else ""


def _render_row(name: str, field: FieldInfo, text: str) -> str:
    about = join_lines(text).replace("|", "\\|")
    return f"| `{name}` | {_render_value(field)} | {_render_default(field)} | {about} |"


def _render_value(field: FieldInfo) -> str:
    low, high = (next((getattr(m, sign) for m in field.metadata if hasattr(m, sign)), None) for sign in ("ge", "le"))
    return _render_type(field.annotation) + (f", {low} to {high}" if low is not None else "")


_WORDS = {str: "text", int: "number", bool: "true or false", Range: "range", type(None): "", PortSelector: "port"}


def _render_type(kind: object) -> str:
    if isinstance(kind, type) and kind in _WORDS:
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


def _render_default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None or isinstance(value, BaseModel) or value in ((), {}):
        return ""
    if isinstance(value, tuple):
        return f"`[{', '.join(map(str, value))}]`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
