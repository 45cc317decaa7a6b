"""JSON inside YAML: its lines are lines of the file."""

import pytest

from trackbed.lint.corpus import index_documents
from trackbed.lint.manifests import parse_manifests
from trackbed.lint.run import lint

_HEAD = "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {name: rail0}\nspec:\n"
_GOOD = '"cniVersion": "0.3.1", "name": "rail0", "type": "macvlan"'


def _locate_problems(config: str) -> list[tuple[str, int, int]]:
    documents, early = parse_manifests((_HEAD + config).encode(), "nad.yaml")
    return [(problem.rule, problem.line, problem.column) for problem in lint(index_documents(documents), None, early)]


@pytest.mark.parametrize(
    ("config", "spots"),
    [
        pytest.param(f'  config: |\n    {{{_GOOD},\n    "vlan": 5000}}\n', [("vlan-range", 7, 13)], id="block"),
        pytest.param(
            f'  config: |-\n\n      {{{_GOOD},\n        "vlan": 5000}}\n', [("vlan-range", 8, 17)], id="blank-line"
        ),
        pytest.param(f"  config: '{{{_GOOD}, \"vlan\": 5000}}'\n", [("vlan-range", 5, 80)], id="quoted"),
        pytest.param(f'  config: >\n    {{{_GOOD},\n    "vlan": 5000}}\n', [("vlan-range", 5, 11)], id="folded"),
        pytest.param(f"  config: |\n    {{{_GOOD},\n    }}\n", [("json-trailing-comma", 6, 63)], id="comma"),
        pytest.param('  config: |\n    {"a": ",]",\n     "b" 1}\n', [("invalid-json", 7, 10)], id="no-json"),
        pytest.param('  config: ""\n', [], id="empty"),
    ],
)
def test_a_finding_names_the_line_inside_the_text(config: str, spots: list[tuple[str, int, int]]) -> None:
    assert _locate_problems(config) == spots


def test_a_text_with_a_trailing_comma_is_still_checked() -> None:
    rules = {rule for rule, _, _ in _locate_problems(f'  config: |\n    {{{_GOOD}, "vlan": 5000,}}\n')}
    assert rules == {"json-trailing-comma", "vlan-range"}
