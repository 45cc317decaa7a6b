"""pydantic's errors as problems in our words, with a place and a guess at what was meant."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel

from trackbed.fabric.model.problems import Path, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic_core import ErrorDetails

    from trackbed.fabric.model.source import YamlDocument

_CODES = {
    "missing": "missing-field",
    "extra_forbidden": "unknown-field",
    "literal_error": "bad-choice",
    "union_tag_invalid": "bad-choice",
    "union_tag_not_found": "missing-field",
    "int_parsing": "not-a-number",
    "int_type": "not-a-number",
    "bool_parsing": "not-true-or-false",
    "bool_type": "not-true-or-false",
    "greater_than_equal": "out-of-bounds",
    "less_than_equal": "out-of-bounds",
    "too_short": "empty",
}


def translate_error(error: ErrorDetails, model: type[BaseModel], source: YamlDocument | None) -> Problem:
    """Translate one pydantic error of `model`, read from `source`; without place where there is no text."""
    path, owner = _resolve(error["loc"], model)
    known = error["type"] in _CODES or error["type"] in _SHAPES
    code = _CODES.get(error["type"], "wrong-shape" if error["type"] in _SHAPES else error["type"])
    message = _text(error, path, owner) if known else error["msg"]
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


def _text(error: ErrorDetails, path: Path, owner: type[BaseModel] | None) -> str:  # noqa: PLR0911 - a table of cases
    kind, name, value = error["type"], _name(path), error["input"]
    context: dict[str, Any] = error.get("ctx", {})
    if kind == "missing":
        return f"field {name!r} is missing"
    if kind == "union_tag_not_found":
        return f"field 'scheme' is missing in {name!r}"
    if kind == "extra_forbidden":
        return f"unknown field {name!r}{_meant(name, _fields(owner))}"
    if kind == "literal_error":
        return _choice(name, value, context["expected"])
    if kind == "union_tag_invalid":
        return _choice("scheme", context["tag"], context["expected_tags"])
    if kind in {"greater_than_equal", "less_than_equal"}:
        bound = f"at least {context['ge']}" if "ge" in context else f"at most {context['le']}"
        return f"{name} is {value}, it must be {bound}"
    if kind in _SHAPES:
        return f"{name} must be {_SHAPES[kind]}, not {_kind_of(value)}"
    if kind == "too_short":
        return f"{name} is empty, it needs at least one entry"
    wanted = "true or false" if kind.startswith("bool") else "a whole number"
    return f"{name} is {value!r}, it must be {wanted}"


def _choice(name: str, value: object, expected: str) -> str:
    choices = [part.strip(" '") for part in expected.replace(" or ", ", ").split(",")]
    return f"{name} is {value!r}, it must be {' or '.join(choices)}{_meant(str(value), choices)}"


def _kind_of(value: object) -> str:
    names: dict[type, str] = {dict: "a mapping", list: "a list", type(None): "nothing"}
    return names.get(type(value), f"{value!r}")


def _meant(word: str, candidates: Iterable[str]) -> str:
    """The `did you mean` of a message; letter case does not count."""
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    close = get_close_matches(word.lower().replace("_", ""), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""


def _name(path: Path) -> str:
    words = [part for part in path if isinstance(part, str)]
    return words[-1] if words else "the document"


def _fields(model: type[BaseModel] | None) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()] if model else []


def _resolve(loc: tuple[int | str, ...], model: type[BaseModel]) -> tuple[Path, type[BaseModel] | None]:
    """Pydantic's loc as a path of the file (union tags dropped), and the model that holds its last part."""
    path: list[str | int] = []
    here: list[type[BaseModel]] = [model]
    owner: type[BaseModel] | None = model
    for part in loc:
        tagged = [m for m in here if _tag(m) == part]
        if tagged:
            here = tagged
            owner = tagged[0]
            continue
        if isinstance(part, str) and here:
            owner = here[0]
            here = [m for owner_ in here for m in _models(_annotation(owner_, part))]
        path.append(part)
    return tuple(path), owner


def _tag(model: type[BaseModel]) -> str | None:
    field = model.model_fields.get("scheme")
    return str(get_args(field.annotation)[0]) if field else None


def _annotation(model: type[BaseModel], alias: str) -> object:
    return next((f.annotation for n, f in model.model_fields.items() if (f.alias or n) == alias), None)


def _models(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models(argument)]
