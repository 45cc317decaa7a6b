"""The schema for editors takes what Trackbed takes, and marks what it refuses."""

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from tools.pages.editor_schema import derive_editor_schema

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
CHECK = jsonschema_rs.validator_for(derive_editor_schema())


@pytest.fixture
def fabric() -> dict[str, Any]:
    document = yaml.safe_load((ROOT / "examples" / "shared-subnet.yaml").read_text())
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_right(path: Path) -> None:
    assert [error.message for error in CHECK.iter_errors(yaml.safe_load(path.read_text()))] == []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("spec", "qos"), {"dscp": 64}),
        (("spec", "qos"), {"dcsp": 26}),
        (("spec", "rails"), 0),
        (("spec", "linkType"), "token-ring"),
        (("spec", "addressing", "scheme"), "flat"),
        (("kind",), "Fabrik"),
        (("spec", "nodes"), [{"hosts": "gpu-0", "ports": [7]}]),
    ],
)
def test_a_mistake_is_marked(fabric: dict[str, Any], place: tuple[str, ...], value: object) -> None:
    *folders, key = place
    target = fabric
    for folder in folders:
        target = target[folder]
    target[key] = value
    assert not CHECK.is_valid(fabric)


def test_every_field_has_a_description() -> None:
    schema = derive_editor_schema()
    silent = [
        f"{name}.{field}"
        for name, model in schema["$defs"].items()
        for field, about in model["properties"].items()
        if not about.get("description")
    ]
    assert silent == []
