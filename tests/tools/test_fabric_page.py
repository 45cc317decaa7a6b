"""The example of each section of the Fabric holds its fields, and a plan comes of it."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
import yaml
from pydantic import BaseModel

from tools.pages.editor_schema import derive_editor_schema
from tools.pages.fabric_page import iter_models, render_fabric_page, render_in_context
from trackbed.fabric.model.docstrings import read_section, split_keys
from trackbed.fabric.model.fabric import Fabric, Lock
from trackbed.fabric.model.load import load_fabric, load_lock
from trackbed.fabric.plan.compute import compute_plan

SECTIONS = [(path, model) for path, model in iter_models(Fabric, "", set())]
NAMES = [model.__name__ for _, model in SECTIONS]
SMALLEST = {
    "nodes": [{"hosts": "gpu-[0-3]"}],
    "rails": 2,
    "addressing": {"scheme": "shared-subnet", "ipv4": "10.0.0.0/13"},
}
SIBLINGS: dict[str, dict[str, object]] = {
    "spec.nodes[].ports[]": {"rails": 1, "nodes": [{"hosts": "gpu-0"}]},
    "spec.rails[]": {"addressing": {"scheme": "shared-subnet"}},
    "spec.rdma": {"vfs": {"count": 8}},
    "spec.vfs": {"pods": {"mode": "sriov"}},
    "spec.kubernetes": {"linkType": "infiniband", "vfs": {"count": 8}},
}
"""What a section needs beside it."""


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return derive_editor_schema()


def _merge(base: Any, example: Any) -> Any:
    if isinstance(base, dict) and isinstance(example, dict):
        merged = {key: _merge(base[key], value) if key in base else value for key, value in example.items()}
        return merged if "scheme" in example else base | merged
    if isinstance(base, list) and isinstance(example, list):
        return [_merge(ours, theirs) for ours, theirs in zip(base, example, strict=True)]
    return example


def _build_document(path: str, model: type[BaseModel]) -> dict[str, Any]:
    """Return the smallest Fabric with the example of a section."""
    example = yaml.safe_load(render_in_context(path, read_section(model)[1]))
    head = {"apiVersion": "trackbed.dev/v1alpha1", "kind": "Fabric", "metadata": {"name": "train"}}
    spec = {} if path in {"", "spec"} else SMALLEST | SIBLINGS.get(path, {})
    document = _merge(head | {"spec": spec}, example)
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("model", [*(model for _, model in SECTIONS), Lock], ids=[*NAMES, "Lock"])
def test_an_example_has_each_field_of_its_section(model: type[BaseModel]) -> None:
    aliases = {field.alias or name for name, field in model.model_fields.items()}
    assert set(split_keys(read_section(model)[1])) == aliases


@pytest.mark.parametrize(("path", "model"), SECTIONS, ids=NAMES)
def test_a_fabric_with_the_example_is_planned(path: str, model: type[BaseModel]) -> None:
    content = yaml.safe_dump(_build_document(path, model)).encode()
    assert compute_plan(load_fabric(content, "fabric.yaml").fabric, {}).nodes


@pytest.mark.parametrize(("path", "model"), SECTIONS, ids=NAMES)
def test_an_editor_takes_the_example(schema: dict[str, Any], path: str, model: type[BaseModel]) -> None:
    check = jsonschema_rs.validator_for(schema)
    assert [error.message for error in check.iter_errors(_build_document(path, model))] == []


def test_the_example_of_a_lock_is_a_lock() -> None:
    assert load_lock(read_section(Lock)[1].encode(), "trackbed.lock.yaml").nodes == {"gpu-0": 0, "gpu-1": 1}


def test_the_page_shows_an_example_below_the_keys_that_lead_to_it() -> None:
    block = '```yaml\nspec:\n  nodes:\n    - ports:\n        - pci: "0000:18:00.0"\n          mac: b8:3f:d2:00:00:01\n'
    assert block in render_fabric_page()


def test_every_field_has_its_example_in_the_schema(schema: dict[str, Any]) -> None:
    sections = schema["$defs"].items()
    fields = {f"{name}.{field}": about for name, model in sections for field, about in model["properties"].items()}
    assert [name for name, about in fields.items() if not about.get("examples")] == []
