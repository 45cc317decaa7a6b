"""netplan files of one host, merged as netplan merges them."""

from __future__ import annotations

from typing import Any

import pytest

from trackbed.fabric.importers.netplan.files import merge_network
from trackbed.fabric.importers.source import MAX_FILE_BYTES
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.model.source import Scalar


def merged(*files: tuple[str, str]) -> Any:
    """The `network` of files given as (name, YAML of `network`), places left out."""
    return bare(merge_network([(name, f"network: {text}".encode()) for name, text in files])[0])


def bare(tree: Any) -> Any:
    if isinstance(tree, Scalar):
        return tree.text
    if isinstance(tree, dict):
        return {key: bare(value) for key, value in tree.items()}
    return [bare(item) for item in tree]


def test_a_later_scalar_replaces_an_earlier_one() -> None:
    assert merged(("90.yaml", "{ethernets: {a: {mtu: 9000}}}"), ("10.yaml", "{ethernets: {a: {mtu: 1500}}}")) == {
        "ethernets": {"a": {"mtu": "9000"}}
    }


def test_lists_are_put_end_to_end() -> None:
    first, second = "{ethernets: {a: {addresses: [x]}}}", "{ethernets: {a: {addresses: [y, z]}}}"
    assert merged(("1.yaml", first), ("2.yaml", second)) == {"ethernets": {"a": {"addresses": ["x", "y", "z"]}}}


def test_mappings_are_merged_key_by_key() -> None:
    first, second = "{ethernets: {a: {mtu: 1}, b: {mtu: 2}}}", "{ethernets: {a: {dhcp4: no}}, version: 2}"
    assert merged(("1.yaml", first), ("2.yaml", second)) == {
        "ethernets": {"a": {"mtu": "1", "dhcp4": "no"}, "b": {"mtu": "2"}},
        "version": "2",
    }


def test_the_name_of_a_file_gives_the_order_not_its_directory() -> None:
    files = [("h/run/netplan/10.yaml", "{renderer: early}"), ("h/etc/netplan/20.yaml", "{renderer: late}")]
    assert merged(*files) == merged(*reversed(files)) == {"renderer": "late"}


@pytest.mark.parametrize(
    ("below", "above"), [("lib", "etc"), ("etc", "run"), ("lib", "run")], ids=["lib-etc", "etc-run", "lib-run"]
)
def test_run_hides_etc_and_etc_hides_lib(below: str, above: str) -> None:
    files = [(f"h/{above}/netplan/10.yaml", "{renderer: above}"), (f"h/{below}/netplan/10.yaml", "{version: below}")]
    assert merged(*files) == {"renderer": "above"}


def test_two_files_of_one_name_elsewhere_are_a_finding() -> None:
    files = [(f"h/{place}/10.yaml", b"network: {}") for place in ("a", "b")]
    [problem] = merge_network(files)[1]
    assert str(problem) == (
        "h/a/10.yaml:1:1: warning: h/b/10.yaml hides this file: netplan reads one file of each name; "
        "rename one of them [hidden-file]"
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "network:\n", "network: {}\n", "network: {ethernets: {}}\n"])
def test_emptiness_is_no_error(text: str) -> None:
    tree, problems = merge_network([("h.yaml", text.encode())])
    assert (tree.get("ethernets", {}), problems) == ({}, [])


HOSTILE = {
    "alias bomb": (b"network: {a0: &a0 [x, x]" + b"".join(
        b", a%d: &a%d [%s]" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 10)) for i in range(1, 12)) + b"}", "too-large"),
    "tabs": (b"network:\n\tethernets: {}\n", "tab"),
    "50 MB": (b"network: {}\n" + b"#" * (50 << 20), "too-large"),
    "one byte too many": (b"network: {}\n".ljust(MAX_FILE_BYTES + 1, b"#"), "too-large"),
    "not UTF-8": (b"network: {renderer: \xff}\n", "not-utf8"),
    "NUL": (b"network: {renderer: \x00}\n", "bad-yaml"),
    "not a mapping": (b"- network\n", "no-network"),
    "no network": (b"ethernets: {}\n", "no-network"),
    "network is a list": (b"network: [ethernets]\n", "wrong-shape"),
    "network is text": (b"network: ethernets\n", "wrong-shape"),
    "deep flow": (b"network: " + b"[" * 100_000, "too-deep"),
    "deep block": (b"- " * 100_000, "too-deep"),
    "deep indentation": (b"\n".join(b" " * depth + b"a:" for depth in range(1000)), "too-deep"),
    "holds itself": (b"network: &n {ethernets: *n}\n", "too-deep"),
    "unfinished": (b"network: {", "bad-yaml"),
}  # fmt: skip


@pytest.mark.parametrize(("raw", "code"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_file_is_refused_with_its_place(raw: bytes, code: str) -> None:
    with pytest.raises(SpecError) as caught:
        merge_network([("h.yaml", raw)])
    [problem] = caught.value.problems
    assert problem.code == code
    assert problem.place is not None
    assert problem.place.file == "h.yaml"


def test_a_key_that_stands_twice_is_reported_and_the_first_counts() -> None:
    tree, [problem] = merge_network([("h.yaml", b"network:\n  renderer: a\n  renderer: b\n")])
    assert bare(tree) == {"renderer": "a"}
    assert str(problem) == "h.yaml:3:3: error: key 'renderer' stands twice in one mapping [duplicate-key]"
