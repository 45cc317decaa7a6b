from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from trackbed.fabric.yaml_text import FABRIC_LAYOUT, render_documents, render_mapping

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
TRICKY = st.sampled_from(
    r"""yes|0x1|1e3|0000:16:00.0|10:20:30|a: b|-|=x|==a:1:0,b:1:1|172.16.0.0/12|1.5|12:30|#x|a #b|null|~|fd00::/32
2026-11-21|0o17|<<""".replace("\n", "|").split("|")
)
LINES = st.sampled_from(("a\nb\n", "a\n b\n\n", " a\n", "a\tb\n", "\n", "a\n\nb\n", "a\nb"))
LEAVES = st.one_of(TEXT, TRICKY, LINES, st.integers(), st.booleans(), st.none())
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(TEXT | TRICKY, inner), max_leaves=12)


@given(st.dictionaries(TEXT | TRICKY, VALUES, min_size=1))
def test_readers_of_both_yaml_versions_get_back_what_was_written(value: dict[str, Any]) -> None:
    written = "".join(render_documents([value]))
    assert yaml.load(written, yaml.CSafeLoader) == value
    assert YAML(typ="safe", pure=True).load(written) == value


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("172.16.0.0/31", "k: 172.16.0.0/31"),
        ("0000:7a:00.0", 'k: "0000:7a:00.0"'),
        ("nvidia.com/rail0", "k: nvidia.com/rail0"),
        ("on", 'k: "on"'),
        ("0x8001", 'k: "0x8001"'),
        (True, "k: true"),
        ({}, "k: {}"),
        ([], "k: []"),
    ],
    ids=str,
)
def test_a_value_is_quoted_only_where_a_reader_could_mistake_it(value: object, line: str) -> None:
    assert list(render_documents([{"k": value}])) == [f"---\n{line}\n"]


def test_text_of_several_lines_is_a_block_that_people_can_read() -> None:
    (written,) = render_documents([{"spec": {"config": '{\n  "type": "macvlan"\n}\n'}}])
    assert written == '---\nspec:\n  config: |\n    {\n      "type": "macvlan"\n    }\n'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"mtu": "9000", "hosts": "gpu-[0-63],login"}, "mtu: 9000\nhosts: gpu-[0-63],login\n"),
        ({"ports": ["0000:7a:00.0", "00:11:22:33:44:55", None]}, 'ports: [0000:7a:00.0, "00:11:22:33:44:55", null]\n'),
        ({"group": {"hosts": "gpu-[0-63]"}}, 'group: {hosts: "gpu-[0-63]"}\n'),
        ({"nodes": [{"names": ["on"]}]}, 'nodes:\n  - names: ["on"]\n'),
        ({"a": {"b": "c" * 110}}, f"a: {{b: {'c' * 110}}}\n"),
        ({"a": {"b": "c" * 120}}, f"a:\n  b: {'c' * 120}\n"),
    ],
    ids=["plain", "list", "range in braces", "list of mappings", "fits", "does not fit"],
)
def test_a_fabric_is_written_as_people_write_one(value: dict[str, Any], text: str) -> None:
    assert render_mapping(value, FABRIC_LAYOUT) == text
