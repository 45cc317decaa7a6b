"""Lists in which NVUE writes several ports once."""

from __future__ import annotations

import pytest

from tests.switches.leaves import derive_sound_leaves, plan_case
from trackbed.switches.dialect import find_mismatches
from trackbed.switches.dialects import load_dialect
from trackbed.switches.nvue.tree import expand_names, parse_tree
from trackbed.switches.port_config import UnreadableError

NVUE = load_dialect("nvue")


@pytest.mark.parametrize(
    ("listing", "names"),
    [
        pytest.param("swp1", ["swp1"], id="a single port"),
        pytest.param("br_default", ["br_default"], id="no number"),
        pytest.param("swp1-3,swp7", ["swp1", "swp2", "swp3", "swp7"], id="span and port"),
        pytest.param("swp1,3-4,57", ["swp1", "swp3", "swp4", "swp57"], id="prefix written once"),
        pytest.param("vlan200,300", ["vlan200", "vlan300"], id="VLAN interfaces"),
        pytest.param("24-26,48", ["24", "25", "26", "48"], id="numbers"),
        pytest.param("swp1s0-1,swp2s0-1", ["swp1s0", "swp1s1", "swp2s0", "swp2s1"], id="ports of a breakout"),
        pytest.param("swp49s6-7,bond51s0,2", ["swp49s6", "swp49s7", "bond51s0", "bond51s2"], id="prefix of a breakout"),
        pytest.param("swp1-2s0-1", ["swp1s0", "swp1s1", "swp2s0", "swp2s1"], id="two spans"),
        pytest.param("swp1.100-101", ["swp1.100", "swp1.101"], id="subinterfaces"),
        pytest.param("swp4-1", ["swp4-1"], id="a span that counts down is a name"),
        pytest.param("leaf-1-2", ["leaf-1-2"], id="a name with hyphens"),
        pytest.param(",", ["", ""], id="nothing"),
    ],
)
def test_a_list_stands_for_its_names(listing: str, names: list[str]) -> None:
    assert expand_names(listing) == names


def list_codes(text: str, **fields: object) -> list[tuple[str, str]]:
    """Return code and place of the mismatches between the first leaf and a configuration."""
    leaf = derive_sound_leaves("nvue", plan_case(), **fields)[0]
    return [(mismatch.code, mismatch.where) for mismatch in find_mismatches(leaf, NVUE, NVUE.parse(text.encode()))]


BREAKOUT = ("swp1s0", "swp1s1")


@pytest.mark.parametrize("listing", ["swp1s0-1", "swp1s0-1,swp2s0-1", "swp1-2s0-1", "swp1s0,1", "swp1-64,swp1s0-1"])
def test_ports_of_a_breakout_are_compared(listing: str) -> None:
    text = NVUE.render(derive_sound_leaves("nvue", plan_case(), ports=BREAKOUT)[0])
    text += f"nv set interface {listing} link mtu 1500\n"
    assert ("mtu", "leaf-u0-r0 swp1s0, swp1s1") in list_codes(text, ports=BREAKOUT, uplinks=("swp65", "swp66"))


def test_ports_after_the_first_inherit_its_prefix() -> None:
    text = NVUE.render(derive_sound_leaves("nvue", plan_case())[0])
    text += "nv set interface swp1,2-4,63-64 link mtu 1500\n"
    assert list_codes(text) == [("mtu", "leaf-u0-r0 swp1, swp2, swp63 and 1 more")]


SHARED_AND_OWN = """\
- set:
    interface:
      swp1-2,63-64:
        link: {mtu: 1500}
      swp1:
        ipv4: {address: {172.16.0.1/31: {}}}
      swp2:
        ipv4: {address: {172.16.0.3/31: {}}}
      swp63-64:
        type: swp
    qos:
      roce: {state: enabled}
"""


def test_settings_of_a_port_below_several_lists_are_merged() -> None:
    assert list_codes(SHARED_AND_OWN) == [("mtu", "leaf-u0-r0 swp1, swp2, swp63 and 1 more")]


def test_the_last_of_several_settings_wins() -> None:
    later = SHARED_AND_OWN + "- set: {interface: {swp1-2: {link: {mtu: 9216}}, swp63-64: {link: {mtu: 1500}}}}\n"
    latest = later + "- set: {interface: {swp2: {link: {mtu: 1500}}}}\n"
    assert list_codes(later) == [("mtu", "leaf-u0-r0 swp63, swp64")]
    assert list_codes(latest) == [("mtu", "leaf-u0-r0 swp2, swp63, swp64")]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        pytest.param(b"nv set interface swp1-99999 link mtu 9216", "more than 4096", id="one span"),
        pytest.param(b"nv set interface swp1-99s1-99 link mtu 9216", "more than 4096", id="two spans"),
        pytest.param(b"nv set interface swp" + b"1-9s" * 5000 + b"1-9 link", "more than 4096", id="many spans"),
        pytest.param(b"nv set interface swp1" + b",2" * 5000 + b" link", "more than 4096", id="many names"),
        pytest.param(b"nv set" + b" dscp 0-4000" * 20, "more than 500000 words", id="lists within lists"),
        pytest.param(
            b"- set: {interface: {swp1-4000: {" + b", ".join(b"k%d: v" % n for n in range(5000)) + b"}}}",
            "more than 500000 words",
            id="a long list of many settings",
        ),
    ],
)
def test_lists_without_end_are_refused(raw: bytes, message: str) -> None:
    with pytest.raises(UnreadableError, match=message):
        parse_tree(raw)


def test_a_key_that_stands_twice_is_refused_with_its_line() -> None:
    with pytest.raises(UnreadableError, match="'swp1' stands twice") as caught:
        parse_tree(b"- set:\n    interface:\n      swp1: {type: swp}\n      swp1: {link: {mtu: 1500}}\n")
    assert caught.value.line == 4
