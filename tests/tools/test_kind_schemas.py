"""The schemas that lint ships with, made from upstream's files."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tools import kind_schemas
from trackbed.lint.schemas.formats import QUANTITY

_META = {"type": "object", "properties": {"name": {"type": "string"}}}
_RAIL = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"$ref": "#/definitions/Meta"},
        "spec": {"$ref": "#/definitions/Spec"},
    },
    "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "Rail"}],
}
_SPEC = {
    "type": "object",
    "description": "Not shipped.",
    "properties": {
        "count": {"type": "integer", "format": "int32"},
        "port": {"type": "string", "format": "int-or-string"},
        "amount": {"$ref": "#/definitions/io.Quantity"},
        "inner": {"$ref": "#/definitions/Spec"},
    },
}
_SWAGGER = {
    "info": {"version": "v9"},
    "definitions": {"Meta": _META, "Rail": _RAIL, "Spec": _SPEC, "io.Quantity": {"type": "string"}},
    "paths": {},
}


def _write_crd(folder: Path, spec: Mapping[str, object]) -> None:
    folder.mkdir()
    schema = {"type": "object", "properties": {"spec": {"type": "object", **spec}}}
    version = {"name": "v1", "served": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Pool", "plural": "pools"}
    definition = {"group": "example.org", "names": names, "scope": "Namespaced", "versions": [version]}
    metadata = {"name": "pools.example.org"}
    crd = {"kind": "CustomResourceDefinition", "metadata": metadata, "spec": definition}
    (folder / "pools.yaml").write_text(yaml.safe_dump(crd))


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    swagger = tmp_path / "swagger.json"
    swagger.write_text(json.dumps(_SWAGGER))
    old = {"properties": {"size": {"type": "integer"}, "old": {"type": "string"}}, "required": ["size", "old"]}
    new = {"properties": {"size": {"type": "string"}, "new": {"type": "string"}}, "required": ["size"]}
    _write_crd(tmp_path / "old", old)
    _write_crd(tmp_path / "new", new)
    path = tmp_path / "shipped.zip"
    monkeypatch.setattr(kind_schemas, "_ARCHIVE", path)
    kind_schemas.main(swagger, [tmp_path / "old", tmp_path / "new"])
    return path


def test_a_kind_of_kubernetes_keeps_its_structure_and_no_text(archive: Path) -> None:
    content = zipfile.ZipFile(archive).read("core.json").decode()
    assert "Not shipped" not in content
    parts = json.loads(content)["parts"]
    assert {"type": ["integer", "null"], "minimum": -(1 << 31), "maximum": (1 << 31) - 1} in parts
    assert {"type": ["integer", "string", "null"]} in parts
    assert {"type": ["string", "number", "null"], "pattern": QUANTITY} in parts


def test_two_releases_of_a_kind_accept_what_one_of_them_accepts(archive: Path) -> None:
    content = json.loads(zipfile.ZipFile(archive).read("example.org.json"))
    specs = [part for part in content["parts"] if "old" in part.get("properties", {})]
    assert len(specs) == 1
    assert set(specs[0]["properties"]) == {"size", "old", "new"}
    assert specs[0]["required"] == ["size"]
    assert content["parts"][specs[0]["properties"]["size"]]["type"] == ["integer", "string"]


def test_equal_input_gives_equal_bytes(archive: Path, tmp_path: Path) -> None:
    before = archive.read_bytes()
    kind_schemas.main(tmp_path / "swagger.json", [tmp_path / "old", tmp_path / "new"])
    assert archive.read_bytes() == before
