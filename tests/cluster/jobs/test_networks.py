from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.jobs.wanteds import PLAIN, WANTED, template
from trackbed.cluster.jobs.inject import inject_rails
from trackbed.cluster.jobs.networks import ANNOTATION, parse_networks
from trackbed.cluster.stacks.access import Access

OURS = [{"name": f"rail{n}", "namespace": "ai", "interface": f"rail{n}"} for n in range(2)]


def _annotated(written: Any) -> dict[str, Any]:
    return template() | {"metadata": {"annotations": {ANNOTATION: written}}}


def _after(written: Any, namespace: str | None = None, access: Access = PLAIN.access) -> tuple[Any, list[str]]:
    """The networks after injecting, and codes of what was kept."""
    pod = _annotated(written)
    notes = inject_rails(pod, WANTED["networks and devices"] if access is PLAIN.access else PLAIN, namespace)
    return parse_networks(pod["metadata"]["annotations"][ANNOTATION]), [n.code for n in notes if n.verdict != "missing"]


THEIRS = {
    "short": ("storage", [{"name": "storage"}]),
    "short with all": ("ns/storage@st0", [{"name": "storage", "namespace": "ns", "interface": "st0"}]),
    "several": (" a , b@c ", [{"name": "a"}, {"name": "b", "interface": "c"}]),
    "JSON": ('[{"name": "a", "ips": ["10.9.9.9/24"]}]', [{"name": "a", "ips": ["10.9.9.9/24"]}]),
    "empty": ("", []),
    "empty JSON": ("[]", []),
}


@pytest.mark.parametrize(("written", "theirs"), THEIRS.values(), ids=THEIRS)
def test_the_users_networks_come_first_and_stay(written: str, theirs: list[dict[str, Any]]) -> None:
    assert _after(written) == (theirs + OURS, [])


def test_a_rail_that_the_user_attached_is_not_doubled_and_keeps_what_they_said() -> None:
    mine = {"name": "rail1", "namespace": "ai", "interface": "rail1", "ips": ["10.0.0.9/24"]}
    assert _after(json.dumps([mine, {"name": "storage"}])) == ([mine, {"name": "storage"}, OURS[0]], [])


@pytest.mark.parametrize("written", ["ai/rail0@rail0,ai/rail1@rail1", json.dumps(OURS)], ids=["short", "JSON"])
def test_an_annotation_that_has_all_rails_is_not_rewritten(written: str) -> None:
    pod = _annotated(written)
    inject_rails(pod, PLAIN)
    assert pod["metadata"]["annotations"][ANNOTATION] == written


def test_without_a_namespace_a_network_is_the_pods() -> None:
    assert _after("rail0@rail0,rail1@rail1", "ai")[0] == [
        {"name": "rail0", "interface": "rail0"},
        {"name": "rail1", "interface": "rail1"},
    ]
    assert _after("rail0,rail1", "other")[0] == [{"name": "rail0"}, {"name": "rail1"}, *OURS]


def test_a_rail_under_another_interface_name_stays_and_is_told() -> None:
    entries, kept = _after("ai/rail0@net1,ai/rail1@net2")
    assert [entry["interface"] for entry in entries] == ["net1", "net2"]
    assert kept == ["interface-name"] * 2


def test_an_interface_that_another_network_has_is_told() -> None:
    entries, kept = _after("storage@rail1")
    assert entries == [{"name": "storage", "interface": "rail1"}, OURS[0]]
    assert kept == ["interface-name-taken"]


def test_a_rail_attached_twice_is_told() -> None:
    assert _after("ai/rail0@rail0,ai/rail1@rail1,ai/rail1@x")[1] == ["pod-network-doubled"]


UNREADABLE = ["[", "{}", "[1]", '[{"interface": "x"}]', "a b", "a,,b", "a/b/c", "[" * 5000, '[{"name": 3}]']


@pytest.mark.parametrize("written", UNREADABLE, ids=lambda text: text[:20])
def test_what_multus_cannot_read_is_left_and_told(written: str) -> None:
    pod = _annotated(written)
    kept = [note.code for note in inject_rails(pod, PLAIN) if note.verdict != "missing"]
    assert (pod["metadata"]["annotations"][ANNOTATION], kept) == (written, ["networks-annotation"])


@pytest.mark.parametrize("rail", [0, 1])
def test_each_rail_that_is_missing_is_named(rail: int) -> None:
    pod = _annotated(json.dumps([entry for n, entry in enumerate(OURS) if n != rail]))
    missing = [note.difference for note in inject_rails(pod, PLAIN) if note.code == "pod-fewer-rails-than-planned"]
    assert missing == [f"network ai/rail{rail} as interface rail{rail}"]
    assert json.loads(pod["metadata"]["annotations"][ANNOTATION]) == [OURS[1 - rail], OURS[rail]]


LAYOUTS = {
    "short": ("storage", "storage,ai/rail0@rail0,ai/rail1@rail1"),
    "spaces and a line end": (" a , b@c\n", " a , b@c,ai/rail0@rail0,ai/rail1@rail1\n"),
    "JSON on one line": ('[ {"name":"a"} ]', f'[ {{"name":"a"}}, {json.dumps(OURS[0])}, {json.dumps(OURS[1])} ]'),
    "an entry a line": (
        '[\n    {"name": "a"},\n    {"name": "b"}\n]\n',
        f'[\n    {{"name": "a"}},\n    {{"name": "b"}},\n    {json.dumps(OURS[0])},\n    {json.dumps(OURS[1])}\n]\n',
    ),
    "an entry over several lines": (
        '[\n  {\n    "name": "a"\n  }\n]',
        f'[\n  {{\n    "name": "a"\n  }},\n  {json.dumps(OURS[0])},\n  {json.dumps(OURS[1])}\n]',
    ),
}


@pytest.mark.parametrize(("written", "expected"), LAYOUTS.values(), ids=LAYOUTS)
def test_rails_are_added_in_the_notation_and_layout_of_the_annotation(written: str, expected: str) -> None:
    pod = _annotated(written)
    inject_rails(pod, PLAIN)
    assert pod["metadata"]["annotations"][ANNOTATION] == expected


def test_another_value_of_a_stacks_annotation_stays_and_is_told() -> None:
    pod = template() | {"metadata": {"annotations": {"cloud/inject": "false"}}}
    kept = [note.difference for note in inject_rails(pod, WANTED["everything"]) if note.verdict == "different"]
    assert kept == ["annotation cloud/inject is 'false', the plan has 'true'"]
    assert pod["metadata"]["annotations"]["cloud/inject"] == "false"
