"""Fabrics are linted like every other document."""

from pathlib import Path

import pytest

from trackbed.lint.corpus import index_documents
from trackbed.lint.manifests import parse_manifests
from trackbed.lint.run import lint
from trackbed.lint.schemas.crds import index_crds

_EXAMPLES = sorted((Path(__file__).parents[2] / "examples").rglob("*.yaml"))
_FABRIC = """apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: train}
spec:
  nodes: [{hosts: "gpu-[0-63]"}]
  rails: 8
  addressing: {scheme: shared-subnet, ipv4: 10.0.0.0/13}
"""


def _lint(text: str) -> list[tuple[str, int]]:
    documents, early = parse_manifests(text.encode(), "a.yaml")
    return [(problem.rule, problem.line) for problem in lint(index_documents(documents), index_crds(), early)]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        pytest.param("rails: 8", "rails: eight", 6, id="type"),
        pytest.param("rails: 8", "rail: 8", 6, id="unknown-field"),
        pytest.param("10.0.0.0/13", "10.0.0.0/29", 7, id="too-few-addresses"),
        pytest.param('gpu-[0-63]"}', 'gpu-[0-63]"}, {hosts: gpu-2}', 5, id="node-twice"),
        pytest.param("name: train", "name: Train_1", 3, id="name"),
        pytest.param("rails: 8", "rails: 8\n  kubernetes: {stack: spiderpol}", 7, id="stack"),
        pytest.param("rails: 8", "rails: 8\n  kubernetes: {versions: {spiderpol: v1}}", 7, id="component"),
        pytest.param("rails: 8", "rails: 8\n  pods: {mode: sriov}", 7, id="sriov-without-vfs"),
    ],
)
def test_a_mistake_of_a_fabric_is_found_at_its_line(old: str, new: str, line: int) -> None:
    assert _lint(_FABRIC) == []
    assert ("fabric-invalid", line) in _lint(_FABRIC.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "line", "code"),
    [
        pytest.param("10.0.0.0/13", "8.8.0.0/13", 7, "public-range", id="public-range"),
        pytest.param("gpu-[0-63]", "gpu-[0-63],gpu-2", 5, "repeated-host", id="host-twice"),
        pytest.param(
            "scheme: shared-subnet,", "scheme: point-to-point,", 8, "vfs-without-address", id="vfs-without-address"
        ),
    ],
)
def test_a_doubt_of_plan_is_a_warning_of_lint_with_its_code(old: str, new: str, line: int, code: str) -> None:
    documents, early = parse_manifests(f"{_FABRIC.replace(old, new)}  vfs: {{count: 1}}\n".encode(), "a.yaml")
    problems = [(problem.rule, problem.line) for problem in lint(index_documents(documents), index_crds(), early)]
    messages = [problem.message for problem in lint(index_documents(documents), index_crds(), early)]
    assert problems == [("fabric-doubtful", line)]
    assert messages[0].endswith(f"[{code}]")


@pytest.mark.parametrize("file", _EXAMPLES, ids=lambda file: file.stem)
def test_nothing_is_found_in_an_example(file: Path) -> None:
    assert [rule for rule, _ in _lint(file.read_text()) if rule != "not-a-manifest"] == []
