"""Comparison of a document with its CRD; messages suggest the right name or level of a field."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Any

from trackbed.fabric.model.problems import Path
from trackbed.lint.document import Document
from trackbed.lint.finding import Breach
from trackbed.lint.schemas.convert import Schema
from trackbed.lint.schemas.crds import KindVersion, Schemas
from trackbed.lint.tree import Tree

_VARIABLE = re.compile(r"\$\{?\w+\}?|\{\{.*\}\}")
_SYNONYMS = {"to": "dst", "destination": "dst", "via": "gw", "gateway": "gw", "nextHop": "gw"}
"""Names of other formats (netplan, NetworkManager) -> field. Their spelling is too different for a suggestion."""
_MAX_CANDIDATES = 300
"""Names that are compared for a suggestion; each comparison takes some 20 microseconds."""
_SHORT = 60
"""Characters of a value in a message."""
_MAX_HITS = 100
"""Breaches of one document. A document of another format may have thousands."""


def check_schema(doc: Document, schemas: Schemas) -> Iterator[Breach]:
    """Yield the breaches for which an API server would refuse the document."""
    versions = schemas.find_versions(doc.group, doc.kind)
    if not versions:
        yield from _report_unknown_kind(doc, schemas)
        return
    version = doc.api_version.rpartition("/")[2]
    if version not in versions:
        known = " or ".join(f"{doc.group}/{name}" for name in versions)
        yield Breach("unknown-kind", doc.tree, ("apiVersion",), f"{doc.kind} has no version {version!r}; write {known}")
        return
    yield from _validate(doc.tree, versions[version])


def _report_unknown_kind(doc: Document, schemas: Schemas) -> Iterator[Breach]:
    kinds = schemas.list_kinds(doc.group)
    if kinds:
        message = f"{doc.group} has no kind {doc.kind!r}{suggest(doc.kind, kinds)}"
        yield Breach("unknown-kind", doc.tree, ("kind",), message)


def _validate(tree: Tree, version: KindVersion) -> Iterator[Breach]:
    errors = list(islice(version.validator.iter_errors(tree.value), _MAX_HITS))
    mistyped = {tuple(error.instance_path) for error in errors if type(error.kind).__name__ == "Type"}
    for error in errors:
        path = tuple(error.instance_path)
        if path not in mistyped or type(error.kind).__name__ == "Type":
            yield from _to_breaches(tree, path, error.kind, error.message, version.schema)


def _to_breaches(tree: Tree, path: Path, kind: Any, message: str, schema: Schema) -> Iterator[Breach]:  # noqa: ANN401 - a Rust enum
    name, details = type(kind).__name__, kind.as_dict()
    field = format_path(path) or "the document"
    value = tree.get(*path)
    if name == "AdditionalProperties":
        for unknown in details["unexpected"]:
            hint = _suggest_field(tree, path, unknown, schema)
            message = f"unknown field {format_path((*path, unknown))}{hint}"
            yield Breach("unknown-field", tree, (*path, unknown), message, key=True)
    elif name == "Required":
        yield Breach("missing-field", tree, path, f"{format_path((*path, details['property']))} is missing", key=True)
    elif name == "Type":
        yield Breach(
            "wrong-type",
            tree,
            path,
            f"{field} must be {_describe_types(_get_subschema(schema, path))}, not {_describe_value(value)}",
        )
    elif name == "Enum":
        options = [str(option) for option in details["options"] if option is not None]
        hint = suggest(str(value), options)
        yield Breach(
            "bad-choice", tree, path, f"{field} is {_shorten_value(value)}, it must be {' or '.join(options)}{hint}"
        )
    else:
        yield Breach("bad-value", tree, path, f"{field}: {message}")


def _suggest_field(tree: Tree, path: Path, unknown: str, schema: Schema) -> str:
    """Return a hint for an unknown field: the level it belongs at, or a field of a similar name."""
    top: Path = path[:1]
    places = [
        place
        for place in _find_fields(_get_subschema(schema, top), top, unknown)
        if _list_fields(place) != _list_fields((*path, unknown))
    ]
    nested = [place for place in places if _are_nested(place[:-1], path)]
    if nested:
        best = min(nested, key=lambda place: (tree.get(*place[:-1]) is None, len(place)))
        return f"; it belongs at {format_path(best)}"
    known = _get_subschema(schema, path).get("properties", {})
    synonym = _SYNONYMS.get(unknown, "")
    return f"; did you mean {synonym!r}?" if synonym in known else suggest(unknown, known)


def _are_nested(parent: Path, path: Path) -> bool:
    """Return whether one path lies inside the other, that is, whether a field is some levels too high or too low."""
    pairs = zip(_list_fields(parent), _list_fields(path), strict=False)
    return all(field == other for field, other in pairs)


def _list_fields(path: Path) -> list[str]:
    return [part for part in path if isinstance(part, str)]


def _find_fields(schema: Schema, path: Path, name: str, depth: int = 6) -> Iterator[Path]:
    if depth == 0:
        return
    for key, part in schema.get("properties", {}).items():
        if key == name:
            yield (*path, key)
        yield from _find_fields(part, (*path, key), name, depth - 1)
    if isinstance(schema.get("items"), dict):
        yield from _find_fields(schema["items"], path, name, depth - 1)


def _get_subschema(schema: Schema, path: Path) -> Schema:
    for part in path:
        inner = schema.get("items") if isinstance(part, int) else schema.get("properties", {}).get(part)
        if inner is None and isinstance(part, str) and isinstance(schema.get("additionalProperties"), dict):
            inner = schema["additionalProperties"]
        if not isinstance(inner, dict):
            return {}
        schema = inner
    return schema


_WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}


def _describe_types(schema: Schema) -> str:
    kinds = schema.get("type", [])
    listed = [_WORDS[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "null"]
    options = [str(option) for option in schema.get("enum", []) if option is not None]
    return (" or ".join(listed) or "another type") + (f" ({' or '.join(options)})" if options else "")


def _describe_value(value: object) -> str:
    if isinstance(value, str) and _VARIABLE.search(value):
        return f"the text {_shorten_value(value)}, which looks like a variable that was not substituted"
    if isinstance(value, str):
        return f"the text {_shorten_value(value)}"
    if isinstance(value, dict | list) or value is None:
        return "nothing" if value is None else "a mapping" if isinstance(value, dict) else "a list"
    return _shorten_value(value)


def _shorten_value(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _SHORT else text[: _SHORT - 3] + "..."


def suggest(name: str, candidates: Any) -> str:  # noqa: ANN401 - any iterable of names
    """Return `; did you mean NAME?` for the most similar candidate, ignoring case; empty if none is similar."""
    by_lower = {str(candidate).lower(): str(candidate) for candidate in islice(candidates, _MAX_CANDIDATES)}
    matches = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[matches[0]]!r}?" if matches else ""


def format_path(path: Path) -> str:
    """Format a path: spec.routes[0].dst."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text
