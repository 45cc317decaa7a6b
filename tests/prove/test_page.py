"""The page of a proof: heat maps in which a sound port is not coloured by its partners, and a page for any size."""

import re

from hypothesis import given
from hypothesis import strategies as st

from tests.prove.hosts import Hosts, build_plan
from trackbed.prove.page.heat import Heat, compute_heat, find_heat_rung, merge_heat
from trackbed.prove.page.html import render_html
from trackbed.prove.page.page import LIST_MAX, NODES_MAX, ProofPage, build_page
from trackbed.prove.proof import Proof
from trackbed.prove.report import build_report
from trackbed.prove.rungs import LADDER


def list_tones(proof: Proof, rung: str = "write_bw") -> dict[str, int]:
    tones = [port_heat.tone for port_heat in compute_heat(proof, rung).values()]
    return {tone: tones.count(tone) for tone in tones}


def build(hosts: Hosts) -> ProofPage:
    proof = hosts.prove(rungs=("ping", "gid"))
    return build_page(proof, build_report(proof), "Proof of f", "screen")


def test_a_sound_fabric_is_of_one_tone() -> None:
    assert list_tones(Hosts(build_plan(12)).prove()) == {"pass": 24}


def test_only_the_slow_port_fails_and_not_its_partners() -> None:
    assert list_tones(Hosts(build_plan(12), gbps={("n3", 1): 200}).prove()) == {"pass": 23, "fail": 1}


def test_a_port_that_a_rung_stops_is_not_shown_as_sound() -> None:
    proof = Hosts(build_plan(12), without_gid=[("n3", 1)]).prove()
    assert list_tones(proof) == {"pass": 23, "fail": 1}


def test_ping_alone_is_not_shown_as_sound() -> None:
    proof = Hosts(build_plan(12)).prove(rungs=("ping",))
    assert list_tones(proof, "ping") == {"ip": 24}


def test_ports_of_other_leaves_are_not_coloured_by_a_leaf_that_is_dead_or_slow() -> None:
    leaf = [(f"n{number}", 1) for number in range(5, 9)]
    assert list_tones(Hosts(build_plan(12), small_mtu=leaf).prove()) == {"pass": 20, "fail": 4}
    assert list_tones(Hosts(build_plan(12), gbps=dict.fromkeys(leaf, 200)).prove()) == {"pass": 20, "fail": 4}


def test_the_highest_rung_that_is_no_latency_is_shown() -> None:
    assert [find_heat_rung(LADDER), find_heat_rung(("ping", "gid"))] == ["write_bw", "ping"]


def test_nodes_that_were_not_reached_are_open() -> None:
    assert list_tones(Hosts(build_plan(12), unreachable={"n12": "gone"}).prove()) == {"pass": 22, "open": 2}


def test_without_a_rung_of_traffic_there_is_no_heat() -> None:
    proof = Hosts(build_plan(4)).prove(rungs=("gid",))
    assert find_heat_rung(("gid",)) is None
    assert build_page(proof, build_report(proof), "", "").units == ()


@given(st.lists(st.sampled_from(["fail", "open", "warn", "ip", "pass"]), min_size=1))
def test_the_tone_of_a_group_is_the_median_of_its_ports(tones: list[str]) -> None:
    order = ["fail", "open", "warn", "ip", "pass"]
    merged = merge_heat([Heat(tone, None) for tone in tones])  # type: ignore[arg-type] # tones as text
    assert merged.tone == sorted(tones, key=order.index)[(len(tones) - 1) // 2]


def test_a_small_fabric_has_all_nodes_and_a_large_one_those_with_something_to_see() -> None:
    small, large = build(Hosts(build_plan(8))), build(Hosts(build_plan(NODES_MAX + 4), small_mtu=[("n7", 0)]))
    assert (len(small.nodes), small.hidden) == (8, 0)
    assert ([row.name for row in large.nodes], large.hidden) == (["n7"], NODES_MAX + 3)
    assert len(large.units) == (NODES_MAX + 4) / 4
    assert large.units[1].cells[0].tone == "ip some"


def test_the_page_loads_nothing_and_shows_what_hosts_say_as_text() -> None:
    page = build(Hosts(build_plan(4), unreachable={"n4": "<script>alert(1)</script>"}))
    html = render_html(page)
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert re.findall(r"(?:src|href)=|url\(|@import", html) == []


def test_long_lists_end_with_how_many_are_left_out() -> None:
    page = build(Hosts(build_plan(8)))
    html = render_html(page._replace(lists=(("Counters that rose", ("x",) * (LIST_MAX + 3)),)))
    assert html.count("<li>x</li>") == LIST_MAX
    assert "And 3 more;" in html
