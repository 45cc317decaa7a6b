"""Translation of pydantic's errors into problems, with their place and suggestions."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from trackbed.fabric.model.problems import Path, Problem
from trackbed.fabric.model.source import YamlDocument

_CODES = {
    "missing": "missing-field",
    "extra_forbidden": "unknown-field",
    "literal_error": "bad-choice",
    "union_tag_invalid": "bad-choice",
    "union_tag_not_found": "missing-field",
    "int_parsing": "not-a-number",
    "int_type": "not-a-number",
    "float_parsing": "not-a-number",
    "float_type": "not-a-number",
    "bool_parsing": "not-true-or-false",
    "bool_type": "not-true-or-false",
    "greater_than_equal": "out-of-bounds",
    "less_than_equal": "out-of-bounds",
    "too_short": "empty",
}


def translate_error(error: ErrorDetails, model: type[BaseModel], source: YamlDocument | None) -> Problem:
    """Translate a pydantic error of `model`; it has no place without `source`."""
    path, owner = _resolve_path(error["loc"], model)
    known = error["type"] in _CODES or error["type"] in _SHAPES
    code = _CODES.get(error["type"], "wrong-shape" if error["type"] in _SHAPES else error["type"])
    message = _render_message(error, path, owner) if known else error["msg"]
    place = source.find_place(path, key=error["type"] == "extra_forbidden") if source else None
    return Problem(code, message, path, place)


_SHAPES = {
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dict_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
    "string_type": "text",
}


_VALUES = {"int": "a whole number", "float": "a number", "bool": "true or false"}
"""Beginning of pydantic's error types -> the value that it expects."""


def _render_message(error: ErrorDetails, path: Path, owner: type[BaseModel] | None) -> str:  # noqa: PLR0911 - a table of cases
    kind, name, value = error["type"], _get_field_name(path), error["input"]
    context: dict[str, Any] = error.get("ctx", {})
    if kind == "missing":
        return f"field {name!r} is missing"
    if kind == "union_tag_not_found":
        return f"field 'scheme' is missing in {name!r}"
    if kind == "extra_forbidden":
        return f"unknown field {name!r}{_build_suggestion(name, _list_fields(owner))}"
    if kind == "literal_error":
        return _render_choice_message(name, value, context["expected"])
    if kind == "union_tag_invalid":
        return _render_choice_message("scheme", context["tag"], context["expected_tags"])
    if kind in {"greater_than_equal", "less_than_equal"}:
        bound = f"at least {context['ge']}" if "ge" in context else f"at most {context['le']}"
        return f"{name} is {value}, it must be {bound}"
    if kind in _SHAPES:
        return f"{name} must be {_SHAPES[kind]}, not {_format_kind(value)}"
    if kind == "too_short":
        return f"{name} is empty, it needs at least one entry"
    return f"{name} is {value!r}, it must be {_VALUES[kind.partition('_')[0]]}"


def _render_choice_message(field_name: str, value: object, expected: str) -> str:
    choices = [part.strip(" '") for part in expected.replace(" or ", ", ").split(",")]
    suggestion = _build_suggestion(str(value), choices) if len(choices) > 1 else ""
    return f"{field_name} is {value!r}, it must be {' or '.join(choices)}{suggestion}"


def _format_kind(value: object) -> str:
    names: dict[type, str] = {dict: "a mapping", list: "a list", type(None): "nothing"}
    return names.get(type(value), f"{value!r}")


def _build_suggestion(text: str, candidates: Iterable[str]) -> str:
    """Return a `did you mean` suffix for the closest candidate, or an empty string; letter case is ignored."""
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    matches = get_close_matches(text.lower().replace("_", ""), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[matches[0]]!r}?" if matches else ""


def _get_field_name(path: Path) -> str:
    names = [part for part in path if isinstance(part, str)]
    return names[-1] if names else "the document"


def _list_fields(model: type[BaseModel] | None) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()] if model else []


def _resolve_path(location: tuple[int | str, ...], model: type[BaseModel]) -> tuple[Path, type[BaseModel] | None]:
    """Return pydantic's location as a path in the file, without union tags, and the model that has its last field."""
    path: list[str | int] = []
    candidates: list[type[BaseModel]] = [model]
    owner: type[BaseModel] | None = model
    for part in location:
        variants = [inner for inner in candidates if _find_tag(inner) == part]
        if variants:
            candidates = variants
            owner = variants[0]
            continue
        if isinstance(part, str) and candidates:
            owner = candidates[0]
            candidates = [inner for candidate in candidates for inner in list_models(_find_annotation(candidate, part))]
        path.append(part)
    return tuple(path), owner


def _find_tag(model: type[BaseModel]) -> str | None:
    field = model.model_fields.get("scheme")
    return str(get_args(field.annotation)[0]) if field else None


def _find_annotation(model: type[BaseModel], alias: str) -> object:
    return next(
        (field.annotation for name, field in model.model_fields.items() if (field.alias or name) == alias), None
    )


def list_models(annotation: object) -> list[type[BaseModel]]:
    """Return the models that an annotation names."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in list_models(argument)]
