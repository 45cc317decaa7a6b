"""Our writer against PyYAML's, on documents of the kind that it is for."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from tests.host.steps.fabrics import SCHEMES, node_plan
from trackbed.fabric.plan.routes import Rule
from trackbed.host.render.netplan import FILE, render
from trackbed.host.render.ports import STEPS
from trackbed.host.render.yamltext import block
from trackbed.host.setting import HEAD, Address, Mtu, Name, RouteOn, Sysctl
from trackbed.host.steps import settings

NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,14}", fullmatch=True)
TEXTS = st.one_of(
    st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=60),
    st.sampled_from(["10.0.0.1/31", "fd00::1/64", "::/0", "no", "1e3", "0x10", "12:30:45", "", "~", "2026-01-01"]),
)
SCALARS = st.one_of(TEXTS, st.integers(), st.booleans())
ENTRIES = st.dictionaries(NAMES, SCALARS, min_size=1, max_size=4)
DOCUMENTS = st.dictionaries(NAMES, st.one_of(SCALARS, ENTRIES, st.lists(st.one_of(SCALARS, ENTRIES))), min_size=1)


def theirs(document: dict[str, Any]) -> str:
    text: str = yaml.dump(document, Dumper=yaml.CSafeDumper, sort_keys=False, width=1 << 20)
    return text


@given(DOCUMENTS)
@example({"a": {}, "b": [], "on": "yes"})
def test_a_document_is_written_as_pyyaml_writes_it(document: dict[str, Any]) -> None:
    assert block(document) == theirs(document)


@pytest.mark.parametrize("addressing", SCHEMES.values(), ids=SCHEMES)
def test_netplans_file_is_written_as_pyyaml_writes_it(addressing: str) -> None:
    text = render(node_plan(addressing))[FILE].removeprefix(HEAD)
    assert text == theirs(yaml.safe_load(text))


@pytest.mark.parametrize("addressing", SCHEMES.values(), ids=SCHEMES)
def test_no_other_step_wants_what_the_files_say(addressing: str) -> None:
    kinds = Name | Mtu | Address | RouteOn | Rule | Sysctl
    wanted = {setting.step for setting in settings(node_plan(addressing)) if isinstance(setting.want, kinds)}
    assert wanted <= set(STEPS)
