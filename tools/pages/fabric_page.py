"""The reference of the Fabric file, made of the models: their attribute docstrings are the text."""

from collections.abc import Iterator
from textwrap import indent
from typing import get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from trackbed.fabric.model.docstrings import join_lines, read_attribute_docstrings, read_section
from trackbed.fabric.model.fabric import Fabric, Lock
from trackbed.fabric.model.field_reference import render_default, render_value
from trackbed.fabric.model.messages import list_models

_HEAD = """# The Fabric file

Keys are camelCase, unknown keys are errors, every value left out has the default shown. Addresses and MACs need no
quotes; write PCI addresses in quotes so that other YAML tools leave them alone. The example of a section has all of its
fields; hardly any Fabric needs them all.
`trackbed explain spec.qos.dscp` shows one field.
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
                suffix = "[]" if _is_list(field.annotation) else ""
                yield from iter_models(inner, f"{path}.{field.alias or name}{suffix}".lstrip("."), visited)


def render_in_context(path: str, example: str) -> str:
    """Return the example of a section below the keys that lead to it."""
    for name in reversed(path.split(".") if path else []):
        key, is_item = name.removesuffix("[]"), name.endswith("[]")
        lines = indent(example, "  ")
        example = f"{key}:\n{indent(lines.replace('  ', '- ', 1) if is_item else example, '  ')}"
    return example


def _is_list(annotation: object) -> bool:
    return any(get_origin(kind) is tuple for kind in (annotation, *get_args(annotation)))


def _render_section(model: type[BaseModel], path: str, title: str = "") -> str:
    about, example = read_section(model)
    texts = read_attribute_docstrings(model)
    rows = [_render_row(field.alias or name, field, texts.get(name, "")) for name, field in model.model_fields.items()]
    head = title or (f"`{path}`{_render_scheme(model)}" if path else "The document")
    return "\n".join(
        [
            f"## {head}",
            "",
            about,
            "",
            "| key | value | default | meaning |",
            "|---|---|---|---|",
            *rows,
            "",
            "```yaml",
            render_in_context(path, example),
            "```",
            "",
        ]
    )


def _render_scheme(model: type[BaseModel]) -> str:
    scheme = model.model_fields.get("scheme")
    return f" with scheme {get_args(scheme.annotation)[0]}" if scheme else ""


def _render_row(name: str, field: FieldInfo, text: str) -> str:
    about = join_lines(text).replace("|", "\\|")
    return f"| `{name}` | {render_value(field)} | {render_default(field)} | {about} |"
