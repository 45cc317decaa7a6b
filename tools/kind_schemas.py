"""Writes the schemas that `trackbed lint` ships with from upstream's own files: structure only, without any text.

Use: `python -m tools.kind_schemas SWAGGER CRDS...`. SWAGGER is api/openapi-spec/swagger.json of kubernetes/kubernetes
(also in the Go module k8s.io/kubernetes), CRDS a folder of CustomResourceDefinitions. Folders may hold several releases
of a kind: its shipped schema then accepts what one of them accepts. Each API group becomes a member of
`src/trackbed/lint/schemas/shipped.zip`, with every distinct part of its schemas once.
"""

import hashlib
import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from trackbed.lint.schemas.convert import Schema, convert_schema
from trackbed.lint.schemas.formats import BOUNDS, PATTERNS, QUANTITY
from trackbed.lint.schemas.shipped import CORE, SOURCES

_ARCHIVE = Path(__file__).parents[1] / "src" / "trackbed" / "lint" / "schemas" / "shipped.zip"
_TIME = (1980, 1, 1, 0, 0, 0)
"""Time of every member, so that equal input gives equal bytes."""
_PREFIX = "#/definitions/"
_ANY: tuple[str, ...] = ("RawExtension", "JSON", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrArray", "FieldsV1")
_ALIASES = {"JSONSchemaPropsOrStringArray", "CustomResourceSubresourceStatus"}
_NOT_ENFORCED = {
    *("core.v1.Event.involvedObject", "resource.v1.DeviceClass.spec", "resource.v1.ResourceClaim.spec"),
    *("resource.v1.ResourceClaimTemplate.spec", "resource.v1.ResourceClaimTemplateSpec.spec"),
    *("storage.v1.CSIDriver.spec", "storage.v1.CSINode.spec", "storage.v1.CSINodeSpec.drivers"),
}
"""Required fields that the API server creates objects without (tried with 1.36.3): their zero value is valid."""


class _Kind(NamedTuple):
    """A version of a kind with its converted schema."""

    group: str
    kind: str
    version: str
    namespaced: bool
    schema: Schema


class _Table:
    """The parts of the schemas of a group, each once; a part refers to others by number."""

    def __init__(self) -> None:
        self.parts: list[Schema] = []
        self._numbers: dict[str, int] = {}

    def add(self, schema: Schema) -> int:
        """Return the number of a schema; its parts have smaller numbers."""
        part = dict(schema)
        if "properties" in part:
            part["properties"] = {name: self.add(item) for name, item in sorted(part["properties"].items())}
        for key in ("items", "additionalProperties"):
            if isinstance(part.get(key), dict):
                part[key] = self.add(part[key])
        text = json.dumps(part, sort_keys=True)
        if text not in self._numbers:
            self._numbers[text] = len(self.parts)
            self.parts.append(part)
        return self._numbers[text]


def main(swagger: Path, folders: list[Path]) -> None:
    """Write the archive."""
    document = json.loads(swagger.read_text())
    files = sorted(file for folder in folders for file in folder.rglob("*.yaml"))
    kinds = [*_iter_built_in_kinds(document), *(kind for file in files for kind in _iter_custom_kinds(file))]
    sources = {"kubernetes": document["info"]["version"], "crds": _list_digests(files)}
    groups: dict[str, list[_Kind]] = {}
    for kind in _unite(kinds):
        groups.setdefault(kind.group, []).append(kind)
    with zipfile.ZipFile(_ARCHIVE, "w", zipfile.ZIP_LZMA) as archive:
        _write(archive, SOURCES, sources | {"groups": sorted({kind.group for kind in _iter_built_in_kinds(document)})})
        for group in sorted(groups):
            _write(archive, f"{group or CORE}.json", _build_group(groups[group]))


def _write(archive: zipfile.ZipFile, name: str, content: object) -> None:
    text = json.dumps(content, separators=(",", ":"), sort_keys=True)
    archive.writestr(zipfile.ZipInfo(name, _TIME), text, zipfile.ZIP_LZMA)


def _list_digests(files: list[Path]) -> dict[str, list[str]]:
    """Return the digests of the files by CRD; several for one that comes in several releases."""
    digests: dict[str, set[str]] = {}
    for file in files:
        for crd in yaml.load_all(file.read_bytes(), Loader=yaml.CSafeLoader):
            name = crd["metadata"]["name"]
            digests.setdefault(name, set()).add(hashlib.sha256(file.read_bytes()).hexdigest()[:16])
    return {name: sorted(entries) for name, entries in digests.items()}


def _unite(kinds: list[_Kind]) -> list[_Kind]:
    """Unite the schemas of kinds that come in several releases."""
    united: dict[tuple[str, str, str], _Kind] = {}
    for kind in kinds:
        known = united.get(kind[:3])
        united[kind[:3]] = kind._replace(schema=_unite_schemas(known.schema, kind.schema)) if known else kind
    return list(united.values())


def _unite_schemas(first: Schema, second: Schema) -> Schema:
    """Return a schema that accepts what one of two schemas accepts; constraints that differ are dropped."""
    united = {key: value for key, value in first.items() if second.get(key) == value}
    if "type" in first and "type" in second:
        united["type"] = sorted({*_list_values(first["type"]), *_list_values(second["type"])})
    if "enum" in first and "enum" in second:
        united["enum"] = [*first["enum"], *(value for value in second["enum"] if value not in first["enum"])]
    fields, others = first.get("properties"), second.get("properties")
    if fields is not None and others is not None:
        united["properties"] = {**others, **fields} | {
            name: _unite_schemas(fields[name], others[name]) for name in fields.keys() & others.keys()
        }
    if "required" in first and "required" in second:
        united["required"] = sorted(set(first["required"]) & set(second["required"]))
    for key in ("items", "additionalProperties"):
        if isinstance(first.get(key), dict) and isinstance(second.get(key), dict):
            united[key] = _unite_schemas(first[key], second[key])
    return united


def _list_values(value: object) -> list[str]:
    return [value] if isinstance(value, str) else list(value) if isinstance(value, list) else []


def _build_group(kinds: list[_Kind]) -> dict[str, Any]:
    table = _Table()
    versions: dict[str, dict[str, Any]] = {}
    for kind in sorted(kinds, key=lambda kind: (kind.kind, kind.version)):
        versions.setdefault(kind.kind, {})[kind.version] = [table.add(kind.schema), kind.namespaced]
    return {"parts": table.parts, "kinds": versions}


def _iter_custom_kinds(file: Path) -> Iterator[_Kind]:
    for crd in yaml.load_all(file.read_bytes(), Loader=yaml.CSafeLoader):
        spec = crd["spec"]
        for version in spec["versions"]:
            schema = version.get("schema", {}).get("openAPIV3Schema")
            if schema and version.get("served", True):
                converted = convert_schema(schema)
                yield _Kind(
                    spec["group"], spec["names"]["kind"], version["name"], spec["scope"] != "Cluster", converted
                )


def _iter_built_in_kinds(document: dict[str, Any]) -> Iterator[_Kind]:
    """Yield the kinds of Kubernetes that clients create; lists and the objects of requests are left out."""
    namespaced = _read_namespaced_kinds(document)
    for name, definition in document["definitions"].items():
        identities = definition.get("x-kubernetes-group-version-kind", [])
        if len(identities) != 1 or "metadata" not in definition.get("properties", {}):
            continue
        group, version, kind = (identities[0][key] for key in ("group", "version", "kind"))
        if kind.endswith("List"):
            continue
        schema = _convert(document["definitions"], name, ())
        schema["properties"] = {**schema["properties"], "status": {}}
        yield _Kind(group, kind, version, (group, version, kind) in namespaced, schema)


def _read_namespaced_kinds(document: dict[str, Any]) -> set[tuple[str, str, str]]:
    kinds = set()
    for path, operations in document["paths"].items():
        identity = operations.get("post", {}).get("x-kubernetes-group-version-kind")
        if identity and "/namespaces/{namespace}/" in path:
            kinds.add((identity["group"], identity["version"], identity["kind"]))
    return kinds


def _convert(definitions: dict[str, Any], name: str, outer: tuple[str, ...]) -> Schema:
    """Convert a definition. What contains itself, such as the schema in a CRD, is not checked inside."""
    if name in outer or name.endswith(_ANY) or name.rpartition(".")[2] in _ALIASES:
        return {}
    if name.endswith(".Quantity"):
        return {"type": ["string", "number", "null"], "pattern": QUANTITY}
    schema = _convert_value(definitions, definitions[name], (*outer, name))
    title = ".".join(name.split(".")[-3:])
    needed = [field for field in schema.get("required", ()) if f"{title}.{field}" not in _NOT_ENFORCED]
    return schema | {"required": needed} if needed else {key: schema[key] for key in schema if key != "required"}


def _convert_value(definitions: dict[str, Any], value: dict[str, Any], outer: tuple[str, ...]) -> Schema:
    """Convert a schema. The API server reads null as the zero value of any field of its own kinds."""
    if "$ref" in value:
        return _convert(definitions, value["$ref"].removeprefix(_PREFIX), outer)
    if value.get("format") == "int-or-string":
        return {"type": ["integer", "string", "null"]}
    if "type" not in value:
        return {}
    schema: Schema = {"type": [value["type"], "null"]}
    if value.get("format") in BOUNDS:
        schema["minimum"], schema["maximum"] = BOUNDS[value["format"]]
    if value.get("format") in PATTERNS:
        schema["pattern"] = PATTERNS[value["format"]]
    if "items" in value:
        schema["items"] = _convert_value(definitions, value["items"], outer)
    if "additionalProperties" in value:
        schema["additionalProperties"] = _convert_value(definitions, value["additionalProperties"], outer)
    if "properties" in value:
        fields = value["properties"].items()
        schema["properties"] = {field: _convert_value(definitions, part, outer) for field, part in fields}
        schema["additionalProperties"] = False
        if value.get("required"):
            schema["required"] = sorted(value["required"])
    return schema


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(folder) for folder in sys.argv[2:]])
