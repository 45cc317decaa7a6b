"""The kinds and versions that CRD files define, with a compiled validator for each."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jsonschema_rs
import yaml

from trackbed.fabric.model.problems import Place, Problem, SpecError
from trackbed.fabric.model.source import MAX_BYTES
from trackbed.lint.schemas.convert import Schema, convert_schema
from trackbed.lint.tree import dig, list_mappings

_DEFINITION = re.compile(rb"^kind:\s*[\"']?CustomResourceDefinition", re.MULTILINE)
_NAMES = re.compile(rb"\b(?:kind|group):\s*[\"']?([\w.-]+)")


class KindVersion(NamedTuple):
    """A version of a kind."""

    group: str
    version: str
    kind: str
    namespaced: bool
    schema: Schema
    """JSON schema."""
    validator: jsonschema_rs.Draft7Validator


@dataclass(frozen=True)
class Schemas:
    """CRDs, parsed on demand: a folder of 57 has 10 MB, and a manifest needs about three of them."""

    texts: tuple[tuple[str, bytes], ...]
    """(file, text) of each file with CRDs."""
    names: tuple[frozenset[bytes], ...]
    """Groups and kinds that each text may define."""
    _versions: dict[tuple[str, str], dict[str, KindVersion]] = field(default_factory=dict)
    _kinds: dict[str, frozenset[str]] = field(default_factory=dict)

    def find_versions(self, group: str, kind: str) -> dict[str, KindVersion]:
        """Return the versions of a kind by name; empty if no CRD defines it. Raises SpecError if its CRD is invalid."""
        if (group, kind) not in self._versions:
            versions = [version for raw in self._load_crds(group, kind) for version in _read_versions(raw)]
            self._versions[group, kind] = {
                version.version: version for version in versions if (version.group, version.kind) == (group, kind)
            }
        return self._versions[group, kind]

    def list_kinds(self, group: str) -> frozenset[str]:
        """Return the kinds of a group; empty if no CRD defines the group."""
        if group not in self._kinds:
            raws = [raw for raw in self._load_crds(group, group) if dig(raw, "spec", "group") == group] if group else []
            self._kinds[group] = frozenset(str(dig(raw, "spec", "names", "kind")) for raw in raws)
        return self._kinds[group]

    def _load_crds(self, group: str, kind: str) -> Iterator[Any]:
        terms = {group.encode(), kind.encode()}
        for (file, text), names in zip(self.texts, self.names, strict=True):
            if terms <= names:
                yield from _parse_crds(file, text)


def index_crds(texts: Iterable[tuple[str, bytes]]) -> Schemas:
    """Index the files (name, text) that contain CRDs and ignore others. Raises SpecError for a file too large."""
    definitions = tuple((file, text) for file, text in texts if _DEFINITION.search(text))
    for file, text in definitions:
        if len(text) > MAX_BYTES:
            message = f"this CRD file is larger than {MAX_BYTES >> 20} MB, the limit"
            raise SpecError([Problem("too-large", message, place=Place(file, 1, 1))])
    return Schemas(definitions, tuple(frozenset(_NAMES.findall(text)) for _, text in definitions))


def _parse_crds(file: str, text: bytes) -> list[Any]:
    try:
        documents = list(yaml.load_all(text, Loader=yaml.CSafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = Place(file, mark.line + 1 if mark else 1, mark.column + 1 if mark else 1)
        raise SpecError([Problem("bad-crd", f"this CRD is not YAML: {error}", place=place)]) from error
    return [raw for raw in documents if isinstance(raw, dict) and raw.get("kind") == "CustomResourceDefinition"]


def _read_versions(raw: dict[str, Any]) -> Iterator[KindVersion]:
    group, kind = dig(raw, "spec", "group"), dig(raw, "spec", "names", "kind")
    for _, version in list_mappings(dig(raw, "spec", "versions")):
        schema = dig(version, "schema", "openAPIV3Schema")
        if isinstance(schema, dict) and version.get("served", True):
            converted = convert_schema(schema)
            validator = jsonschema_rs.Draft7Validator(converted)
            namespaced = dig(raw, "spec", "scope") != "Cluster"
            yield KindVersion(group, str(version.get("name")), kind, namespaced, converted, validator)
