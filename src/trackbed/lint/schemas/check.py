"""A document held against its CRD, in words: what was meant, where a field belongs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Any

from trackbed.fabric.model.problems import Path
from trackbed.lint.document import Document
from trackbed.lint.finding import Hit
from trackbed.lint.schemas.convert import Schema
from trackbed.lint.schemas.crds import Defined, Schemas
from trackbed.lint.tree import Tree

_VARIABLE = re.compile(r"\$\{?\w+\}?|\{\{.*\}\}")
_OTHER_WORDS = {"to": "dst", "destination": "dst", "via": "gw", "gateway": "gw", "nextHop": "gw"}
"""What other formats (netplan, NetworkManager) call the same; spelling alone does not lead there."""
_MOST_GUESSES = 300
"""Names that are compared for a `did you mean`; each comparison takes some 20 microseconds."""
_SHORT = 60
"""Characters of a value that a message shows."""
_MAX_HITS = 100
"""Of one document; a file of another kind altogether says no more in a thousand."""


def check(doc: Document, schemas: Schemas) -> Iterator[Hit]:
    """What the API server would refuse."""
    versions = schemas.versions(doc.group, doc.kind)
    if not versions:
        yield from _unknown_kind(doc, schemas)
        return
    version = doc.api_version.rpartition("/")[2]
    if version not in versions:
        known = " or ".join(f"{doc.group}/{name}" for name in versions)
        yield Hit("unknown-kind", doc.tree, ("apiVersion",), f"{doc.kind} has no version {version!r}; write {known}")
        return
    yield from _invalid(doc.tree, versions[version])


def _unknown_kind(doc: Document, schemas: Schemas) -> Iterator[Hit]:
    kinds = schemas.kinds(doc.group)
    if kinds:
        message = f"{doc.group} has no kind {doc.kind!r}{meant(doc.kind, kinds)}"
        yield Hit("unknown-kind", doc.tree, ("kind",), message)


def _invalid(tree: Tree, defined: Defined) -> Iterator[Hit]:
    errors = list(islice(defined.validator.iter_errors(tree.value), _MAX_HITS))
    mistyped = {tuple(error.instance_path) for error in errors if type(error.kind).__name__ == "Type"}
    for error in errors:
        path = tuple(error.instance_path)
        if path not in mistyped or type(error.kind).__name__ == "Type":
            yield from _hits(tree, path, error.kind, error.message, defined.schema)


def _hits(tree: Tree, path: Path, kind: Any, message: str, schema: Schema) -> Iterator[Hit]:  # noqa: ANN401 - a Rust enum
    name, what = type(kind).__name__, kind.as_dict()
    where = dotted(path) or "the document"
    value = tree.get(*path)
    if name == "AdditionalProperties":
        for unknown in what["unexpected"]:
            hint = _belongs(tree, path, unknown, schema)
            yield Hit(
                "unknown-field", tree, (*path, unknown), f"unknown field {dotted((*path, unknown))}{hint}", key=True
            )
    elif name == "Required":
        yield Hit("missing-field", tree, path, f"{dotted((*path, what['property']))} is missing", key=True)
    elif name == "Type":
        yield Hit("wrong-type", tree, path, f"{where} must be {_types(_at(schema, path))}, not {_said(value)}")
    elif name == "Enum":
        options = [str(option) for option in what["options"] if option is not None]
        hint = meant(str(value), options)
        yield Hit("bad-choice", tree, path, f"{where} is {_short(value)}, it must be {' or '.join(options)}{hint}")
    else:
        yield Hit("bad-value", tree, path, f"{where}: {message}")


def _belongs(tree: Tree, path: Path, unknown: str, schema: Schema) -> str:
    """Where a field of this name is, if it stands at the wrong level; else what may have been meant."""
    top: Path = path[:1]
    places = [place for place in _places(_at(schema, top), top, unknown) if not _same(place, (*path, unknown))]
    near = [place for place in places if _related(place[:-1], path)]
    if near:
        best = min(near, key=lambda place: (tree.get(*place[:-1]) is None, len(place)))
        return f"; it belongs at {dotted(best)}"
    known = _at(schema, path).get("properties", {})
    other = _OTHER_WORDS.get(unknown, "")
    return f"; did you mean {other!r}?" if other in known else meant(unknown, known)


def _related(parent: Path, path: Path) -> bool:
    """Whether one of the two lies inside the other: a field slipped out or in by some levels."""
    plain = tuple(part for part in path if isinstance(part, str))
    kept = tuple(part for part in parent if isinstance(part, str))
    shorter = min(len(plain), len(kept))
    return plain[:shorter] == kept[:shorter]


def _same(one: Path, other: Path) -> bool:
    return [part for part in one if isinstance(part, str)] == [part for part in other if isinstance(part, str)]


def _places(schema: Schema, path: Path, name: str, depth: int = 6) -> Iterator[Path]:
    if depth == 0:
        return
    for key, part in schema.get("properties", {}).items():
        if key == name:
            yield (*path, key)
        yield from _places(part, (*path, key), name, depth - 1)
    if isinstance(schema.get("items"), dict):
        yield from _places(schema["items"], path, name, depth - 1)


def _at(schema: Schema, path: Path) -> Schema:
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


def _types(schema: Schema) -> str:
    kinds = schema.get("type", [])
    listed = [_WORDS[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "null"]
    options = [str(option) for option in schema.get("enum", []) if option is not None]
    return (" or ".join(listed) or "another type") + (f" ({' or '.join(options)})" if options else "")


def _said(value: object) -> str:
    if isinstance(value, str) and _VARIABLE.search(value):
        return f"the text {_short(value)}, which looks like a variable that nothing has filled in"
    if isinstance(value, str):
        return f"the text {_short(value)}"
    if isinstance(value, dict | list) or value is None:
        return "nothing" if value is None else "a mapping" if isinstance(value, dict) else "a list"
    return _short(value)


def _short(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _SHORT else text[: _SHORT - 3] + "..."


def meant(word: str, candidates: Any) -> str:  # noqa: ANN401 - any iterable of names
    """The `did you mean` of a message; letter case does not count."""
    by_lower = {str(candidate).lower(): str(candidate) for candidate in islice(candidates, _MOST_GUESSES)}
    close = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""


def dotted(path: Path) -> str:
    """A path as people write it: spec.routes[0].dst."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else str(part))
    return text
