"""The kinds and versions that CRD files define or lint ships with, with a compiled validator for each."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import jsonschema_rs
import yaml

from trackbed.fabric.model.problems import Place, Problem, SpecError
from trackbed.fabric.model.source import MAX_BYTES
from trackbed.lint.schemas.convert import Schema, convert_schema
from trackbed.lint.schemas.shipped import load_group
from trackbed.lint.tree import dig, enumerate_mappings

_DEFINITION = re.compile(rb"(?:^|\{)[ \t]*\"?kind\"?:[ \t]*[\"']?CustomResourceDefinition", re.MULTILINE)
_NAMES = re.compile(rb"\b(?:kind|group)\"?:\s*[\"']?([\w.-]+)")


@dataclass(frozen=True)
class KindVersion:
    """A served version of a kind, with its JSON schema."""

    group: str
    version: str
    kind: str
    namespaced: bool
    schema: Schema
    is_shipped: bool = False
    """Whether lint ships with it: the cluster may run another release."""

    @cached_property
    def validator(self) -> jsonschema_rs.Draft7Validator:
        """The compiled schema."""
        return build_validator(self.schema)


@dataclass(frozen=True)
class Schemas:
    """CRDs, and the schemas that lint ships with for kinds that no CRD defines.

    CRDs are parsed on demand, because a folder of 57 CRDs has 10 MB and a manifest needs about three of them.
    """

    texts: tuple[tuple[str, bytes], ...]
    """Name and content of each file with CRDs."""
    names: tuple[frozenset[bytes], ...]
    """Groups and kinds that each file may define, in the order of `texts`."""
    _versions: dict[tuple[str, str], dict[str, KindVersion]] = field(default_factory=dict)
    _kinds: dict[str, frozenset[str]] = field(default_factory=dict)

    def find_versions(self, group: str, kind: str) -> dict[str, KindVersion]:
        """Return the versions of a kind by name; empty without a schema. Raises SpecError if its CRD is invalid."""
        if (group, kind) not in self._versions:
            versions = [version for raw in self._load_crds(group, kind) for version in _iter_versions(raw)]
            defined = {
                version.version: version for version in versions if (version.group, version.kind) == (group, kind)
            }
            self._versions[group, kind] = defined or _find_shipped_versions(group, kind)
        return self._versions[group, kind]

    def list_kinds(self, group: str) -> frozenset[str]:
        """Return the kinds of a group that have a schema; empty if no schema defines the group."""
        if group not in self._kinds:
            raws = [raw for raw in self._load_crds(group, group) if dig(raw, "spec", "group") == group] if group else []
            defined = frozenset(str(dig(raw, "spec", "names", "kind")) for raw in raws)
            self._kinds[group] = defined | frozenset(load_group(group))
        return self._kinds[group]

    def _load_crds(self, group: str, kind: str) -> Iterator[Any]:
        terms = {group.encode(), kind.encode()}
        for (file, text), names in zip(self.texts, self.names, strict=True):
            if terms <= names:
                yield from _parse_crds(file, text)


def _find_shipped_versions(group: str, kind: str) -> dict[str, KindVersion]:
    return {
        name: KindVersion(group, name, kind, version.namespaced, version.schema, is_shipped=True)
        for name, version in load_group(group).get(kind, {}).items()
    }


def index_crds(texts: Iterable[tuple[str, bytes]] = ()) -> Schemas:
    """Index the files that contain CRDs, given as (name, content); others are ignored. CRDs replace shipped schemas.

    Raises SpecError if a file is too large.
    """
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


def _iter_versions(crd: dict[str, Any]) -> Iterator[KindVersion]:
    group, kind = dig(crd, "spec", "group"), dig(crd, "spec", "names", "kind")
    for _, version in enumerate_mappings(dig(crd, "spec", "versions")):
        schema = dig(version, "schema", "openAPIV3Schema")
        if isinstance(schema, dict) and version.get("served", True):
            namespaced = dig(crd, "spec", "scope") != "Cluster"
            yield KindVersion(group, str(version.get("name")), kind, namespaced, convert_schema(schema))


def build_validator(schema: Schema) -> jsonschema_rs.Draft7Validator:
    """Compile a schema. Patterns that the library does not accept, such as Go's `^(?i)on$`, are not checked."""
    try:
        return jsonschema_rs.Draft7Validator(schema)
    except jsonschema_rs.ValidationError:
        return jsonschema_rs.Draft7Validator(_drop_patterns(schema))


def _drop_patterns(value: Any) -> Any:  # noqa: ANN401 - a part of a schema
    """Return a part of a schema without the patterns that do not compile."""
    if isinstance(value, list):
        return [_drop_patterns(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _drop_patterns(item) for key, item in value.items() if key != "pattern" or _is_pattern(item)}


@cache
def _compiles(pattern: str) -> bool:
    try:
        jsonschema_rs.Draft7Validator({"pattern": pattern})
    except jsonschema_rs.ValidationError:
        return False
    return True


def _is_pattern(item: object) -> bool:
    """Return whether `pattern` holds a field of that name instead of a pattern, or a pattern that compiles."""
    return not isinstance(item, str) or _compiles(item)
