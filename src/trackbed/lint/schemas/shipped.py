"""The schemas that lint ships with: the kinds of Kubernetes, and of the operators around GPU networks.

`shipped.zip` is written by `tools/kind_schemas.py` from upstream's files. It has one member for each API group:
`parts`, a list in which a schema refers to its parts by number, and `kinds`, the number of the schema of each version.
"""

import json
import zipfile
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from trackbed.lint.schemas.convert import Schema

CORE = "core"
"""Name of the member of the group without a name."""
SOURCES = "sources.json"
"""Member with the versions of the files that the schemas come from."""


class ShippedVersion(NamedTuple):
    """The schema of a version of a kind."""

    schema: Schema
    namespaced: bool


@cache
def load_group(group: str) -> dict[str, dict[str, ShippedVersion]]:
    """Return the versions of each kind of an API group, by kind; empty if no schema of the group is shipped."""
    try:
        content = _read_member(f"{group or CORE}.json")
    except KeyError:
        return {}
    parts = _join_parts(content["parts"])
    return {
        kind: {version: ShippedVersion(parts[number], namespaced) for version, (number, namespaced) in versions.items()}
        for kind, versions in content["kinds"].items()
    }


def is_built_in(group: str) -> bool:
    """Return whether an API group is one of Kubernetes, all kinds of which are shipped."""
    return group in _load_sources()["groups"]


def count_sources() -> dict[str, str]:
    """Return the version of Kubernetes and the number of CRDs that the shipped schemas come from."""
    sources = _load_sources()
    return {"kubernetes": sources["kubernetes"], "crds": str(len(sources["crds"]))}


@cache
def _load_sources() -> dict[str, Any]:
    content: dict[str, Any] = _read_member(SOURCES)
    return content


def _read_member(name: str) -> Any:  # noqa: ANN401 - JSON of any shape
    with files("trackbed.lint.schemas").joinpath("shipped.zip").open("rb") as file, zipfile.ZipFile(file) as archive:
        return json.loads(archive.read(name))


def _join_parts(parts: list[Schema]) -> list[Schema]:
    """Replace the numbers in each schema with the parts, which come before it in the list."""
    for part in parts:
        if part.get("additionalProperties") is False:
            part.setdefault("properties", {})  # as in convert_schema
        if "properties" in part:
            part["properties"] = {name: parts[number] for name, number in part["properties"].items()}
        for key in ("items", "additionalProperties"):
            if type(part.get(key)) is int:
                part[key] = parts[part[key]]
    return parts
