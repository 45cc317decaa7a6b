"""The CRDs at hand: which kinds they define, in which versions, and a compiled validator for each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jsonschema_rs
import yaml

from trackbed.fabric.model.problems import Place, Problem, SpecError
from trackbed.fabric.model.source import MAX_BYTES
from trackbed.lint.schemas.convert import Schema, convert
from trackbed.lint.tree import dig, mappings

_DEFINITION = re.compile(rb"^kind:\s*[\"']?CustomResourceDefinition", re.MULTILINE)
_NAMES = re.compile(rb"\b(?:kind|group):\s*[\"']?([\w.-]+)")


class Defined(NamedTuple):
    """One version of one kind."""

    group: str
    version: str
    kind: str
    namespaced: bool
    schema: Schema
    """As JSON schema."""
    validator: jsonschema_rs.Draft7Validator


@dataclass(frozen=True)
class Schemas:
    """CRDs, read only as far as somebody asks: a folder of 57 has 10 MB, a manifest needs three of them."""

    texts: tuple[tuple[str, bytes], ...]
    """(file, text) of each file that holds CRDs."""
    names: tuple[frozenset[bytes], ...]
    """What each of the texts may define."""
    _found: dict[tuple[str, str], dict[str, Defined]] = field(default_factory=dict)
    _groups: dict[str, frozenset[str]] = field(default_factory=dict)

    def versions(self, group: str, kind: str) -> dict[str, Defined]:
        """Every version of a kind; empty where no CRD defines it. SpecError where its CRD cannot be read."""
        if (group, kind) not in self._found:
            defined = [one for raw in self._raw(group, kind) for one in _defined(raw) if one.kind == kind]
            self._found[group, kind] = {one.version: one for one in defined if one.group == group}
        return self._found[group, kind]

    def kinds(self, group: str) -> frozenset[str]:
        """The kinds of a group; empty where no CRD has that group."""
        if group not in self._groups:
            raws = self._raw(group, group) if group else ()
            kinds = frozenset(
                str(dig(raw, "spec", "names", "kind")) for raw in raws if dig(raw, "spec", "group") == group
            )
            self._groups[group] = kinds
        return self._groups[group]

    def _raw(self, group: str, kind: str) -> Iterator[Any]:
        wanted = {group.encode(), kind.encode()}
        for (file, text), names in zip(self.texts, self.names, strict=True):
            if wanted <= names:
                yield from _parsed(file, text)


def schemas(texts: Iterable[tuple[str, bytes]]) -> Schemas:
    """Take the files (name, text) that hold CRDs; others are left aside."""
    kept = tuple((file, text) for file, text in texts if _DEFINITION.search(text))
    for file, text in kept:
        if len(text) > MAX_BYTES:
            message = f"this CRD file is larger than {MAX_BYTES >> 20} MB, the most that is read"
            raise SpecError([Problem("too-large", message, place=Place(file, 1, 1))])
    return Schemas(kept, tuple(frozenset(_NAMES.findall(text)) for _, text in kept))


def _parsed(file: str, text: bytes) -> list[Any]:
    try:
        found = list(yaml.load_all(text, Loader=yaml.CSafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = Place(file, mark.line + 1 if mark else 1, mark.column + 1 if mark else 1)
        raise SpecError([Problem("bad-crd", f"this CRD is not YAML: {error}", place=place)]) from error
    return [raw for raw in found if isinstance(raw, dict) and raw.get("kind") == "CustomResourceDefinition"]


def _defined(raw: dict[str, Any]) -> Iterator[Defined]:
    group, kind = dig(raw, "spec", "group"), dig(raw, "spec", "names", "kind")
    for _, version in mappings(dig(raw, "spec", "versions")):
        schema = dig(version, "schema", "openAPIV3Schema")
        if isinstance(schema, dict) and version.get("served", True):
            made = convert(schema)
            validator = jsonschema_rs.Draft7Validator(made)
            yield Defined(
                group, str(version.get("name")), kind, dig(raw, "spec", "scope") != "Cluster", made, validator
            )
