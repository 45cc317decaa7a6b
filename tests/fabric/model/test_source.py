"""YAML text as values with their places, from untrusted input."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.model.source import MAX_DEPTH, Scalar, read_yaml

BOMB = b"a0: &a0 [x, x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 10)) for i in range(1, 12)
)
BYTES = {
    "alias bomb": (
        BOMB,
        "f.yaml:1:1: error: this holds more than 2000000 values once its aliases are expanded [too-large]",
    ),
    "50 MB": (
        b"a: b\n" + b"#" * (50 << 20),
        "f.yaml:1:1: error: the file is larger than 16 MB, the most that is read [too-large]",
    ),
    "not UTF-8": (
        "a: l\xe4uft\n".encode("latin-1"),
        "f.yaml:1:5: error: byte 0xe4 is not UTF-8; save the file as UTF-8 [not-utf8]",
    ),
    "UTF-16": (
        "a: b".encode("utf-16"),
        "f.yaml:1:1: error: byte 0xff is not UTF-8; save the file as UTF-8 [not-utf8]",
    ),
    "control character": (
        b"a:\n  mtu: 9000\x07",
        "f.yaml:2:12: error: a control character stands here; YAML allows none [bad-yaml]",
    ),
    "holds itself": (
        b"&a [*a]\n",
        "f.yaml:1:1: error: this is nested more than 40 levels deep, or holds itself [too-deep]",
    ),
}


@pytest.mark.parametrize(("raw", "message"), BYTES.values(), ids=BYTES.keys())
def test_a_hostile_file_is_refused(raw: bytes, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_yaml(raw, "f.yaml")
    assert str(caught.value) == message


@pytest.mark.parametrize("depth", [MAX_DEPTH - 1, MAX_DEPTH])
def test_nesting_is_read_up_to_the_bound(depth: int) -> None:
    [source] = read_yaml(b"[" * depth + b"]" * depth, "f.yaml")
    assert str(source.data).count("[") == depth


@pytest.mark.parametrize(
    "raw",
    [b"[" * 100_000, b"{a: " * 100_000, b"- " * 100_000, b"? " * 100_000, b"-\n" + b" - " * 100_000,
     b"\n".join(b" " * n + b"a:" for n in range(3000)), b"[" * (MAX_DEPTH + 2) + b"]" * (MAX_DEPTH + 2)],
    ids=["lists", "mappings", "dashes", "question marks", "dashes below", "indentation", "one too many"],
)  # fmt: skip
def test_deep_nesting_is_refused_before_it_can_end_the_process(raw: bytes) -> None:
    with pytest.raises(SpecError) as caught:
        read_yaml(raw, "f.yaml")
    assert [problem.code for problem in caught.value.problems] == ["too-deep"]


def test_many_shallow_brackets_are_no_nesting() -> None:
    [source] = read_yaml(b"- [a]\n" * 10_000, "f.yaml")
    assert source.data == [["a"]] * 10_000


def test_scalars_stay_text() -> None:
    [source] = read_yaml(b"[10:20:30:40:50:59, on, 007, 1e3, 0x10, null, ~, 'null', ]", "f.yaml")
    assert source.data == ["10:20:30:40:50:59", "on", "007", "1e3", "0x10", None, None, "null"]


def test_a_scalar_knows_its_place() -> None:
    [source] = read_yaml(b"a:\n  b: [x, ~]\n", "f.yaml")
    written = source.to_scalars()["a"]["b"]
    assert [(w.text, str(w.place)) for w in written] == [("x", "f.yaml:2:7"), (None, "f.yaml:2:10")]
    assert all(isinstance(w, Scalar) for w in written)


def test_the_place_of_a_path_that_ends_early_is_its_deepest_part() -> None:
    [source] = read_yaml(b"a:\n  b: [x]\n", "f.yaml")
    assert str(source.find_place(("a", "b", 7, "c"))) == "f.yaml:2:6"
    assert str(source.find_place(("a", "b"), key=True)) == "f.yaml:2:3"


def test_a_byte_order_mark_is_no_text() -> None:
    [source] = read_yaml(b"\xef\xbb\xbfa: b", "f.yaml")
    assert source.data == {"a": "b"}


@given(st.text(st.sampled_from('\\ud8"\U0001f600\U0010ffff \n'), max_size=12))
def test_json_has_the_characters_that_its_escapes_stand_for(value: str) -> None:
    [source] = read_yaml(json.dumps({value: [value]}).encode(), "f.json")
    assert source.data == {value: [value]}


def test_what_stands_behind_an_escape_of_json_keeps_its_place() -> None:
    [source] = read_yaml(b'{"a": "\\ud83d\\ude00", "b": "x"}', "f.json")
    assert source.data == {"a": "\U0001f600", "b": "x"}
    assert str(source.find_place(("b",))) == "f.json:1:28"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(r'a: "\ud83d\ude00"', id="YAML, as the API server reads it"),
        pytest.param(r'{"a": "\ud83d"}', id="half a pair"),
        pytest.param(r'{"a": "\ude00\ud83d"}', id="a pair in the other order"),
        pytest.param(r'{"a": "\ud83d\ude00 \ue03d\ue600"}', id="beside characters that stand for such escapes"),
    ],
)
def test_surrogates_are_read_where_two_of_them_are_one_character_of_json(text: str) -> None:
    with pytest.raises(SpecError, match="invalid Unicode character escape code"):
        read_yaml(text.encode(), "f")


def test_tabs_of_json_are_no_mistake() -> None:
    with pytest.raises(SpecError) as caught:
        read_yaml(b'{\n\t"a": [1,,]\n}', "f.json")
    assert str(caught.value) == "f.json:2:10: error: this is not YAML: did not find expected node content [bad-yaml]"


def test_empty_documents_are_passed_over() -> None:
    assert [source.data for source in read_yaml(b"---\n---\na: b\n---\n# end\n", "f.yaml")] == [{"a": "b"}]


def test_an_alias_is_the_latest_node_with_its_anchor() -> None:
    [first, second] = read_yaml(b"a: &x 1\nb: *x\nc: &x {d: &x 2, e: *x}\nf: *x\n---\ng: &x 3\n", "f.yaml")
    assert first.data == {"a": "1", "b": "1", "c": {"d": "2", "e": "2"}, "f": "2"}
    assert second.data == {"g": "3"}
    assert str(first.find_place(("c", "e"))) == "f.yaml:3:11"


@pytest.mark.parametrize("deep", [b"[" * 450 + b"]" * 450, b"\n".join(b" " * n + b"d:" for n in range(1, 390))])
def test_an_anchor_that_stands_twice_makes_no_nesting_deeper(deep: bytes) -> None:
    with pytest.raises(SpecError) as caught:
        read_yaml(b"a: &x 1\nb: &x 2\nc: \n " + deep, "f.yaml")
    assert [problem.code for problem in caught.value.problems] == ["too-deep"]


def test_an_alias_without_an_anchor_is_told() -> None:
    with pytest.raises(SpecError) as caught:
        read_yaml(b"a: &x 1\nb: &x 2\nc: *y\n", "f.yaml")
    assert str(caught.value) == "f.yaml:3:4: error: this is not YAML: found undefined alias 'y' [bad-yaml]"
