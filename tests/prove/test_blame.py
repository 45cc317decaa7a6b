import math
import random
from array import array
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.prove.topologies import build, list_tests
from trackbed.prove.blame import Blame, Request, investigate
from trackbed.prove.budget import compute_budget
from trackbed.prove.culprits import Culprit, describe
from trackbed.prove.links import UNTRACED, Trace
from trackbed.prove.rounds import Round, plan_cover, plan_screen
from trackbed.prove.suspects import decide
from trackbed.prove.topology import FabricTopology, Uplinks

Rate = Callable[[int, int, int | None], float]
"""Ports, and the source port of a single flow -> fraction of the rate, NaN for a lost value."""
SPINES = 4


def prove(
    topology: FabricTopology,
    rate: Rate,
    *,
    cover: bool = False,
    traced: bool = True,
    requests: list[Request] | None = None,
) -> Blame:
    """Measure a screen, with `cover` also a cover, and what the investigation asks for; append that to `requests`."""
    rounds = [*plan_screen(topology), *(plan_cover(topology) if cover else ())]
    investigation = investigate(topology, [(tests, measure(tests, rate)) for tests in rounds])
    try:
        request = next(investigation)
        while True:
            if requests is not None:
                requests.append(request)
            if isinstance(request, Trace):
                spines = [source_port % SPINES if traced else UNTRACED for source_port in request.source_ports]
                request = investigation.send(array("d", spines))
            else:
                ports = [*request.a, *request.b]
                assert len(set(ports)) == len(ports)
                request = investigation.send(measure(request, rate))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return] # StopIteration has no type for its value


def measure(tests: Round, rate: Rate) -> list[float]:
    source_ports = tests.source_ports or [None] * len(tests.a)
    return [rate(a, b, source_port) for a, b, source_port in zip(tests.a, tests.b, source_ports, strict=True)]


def slow_ports(*ports: int, rate: float = 0.5) -> Rate:
    return lambda a, b, _: rate if {a, b} & {*ports} else 0.97


def name_culprits(blame: Blame) -> list[tuple[object, ...]]:
    return [(c.kind, c.rail, c.leaves, c.spine, c.unit, c.nodes) for c in blame.culprits]


def test_a_sound_fabric_has_no_culprit() -> None:
    assert prove(build(32), lambda *_: 0.97, cover=True) == Blame((), ())


def test_a_fabric_without_any_value_blames_nobody() -> None:
    assert prove(build(32), lambda *_: math.nan, cover=True) == Blame((), ())


def test_a_port_that_is_low_with_partners_that_are_fine_is_named() -> None:
    topology = build(32, 8, 2)
    blame = prove(topology, slow_ports(11))
    assert name_culprits(blame) == [("port", 1, (), None, None, (5,))]
    assert blame.culprits[0].loss == pytest.approx(0.5)


def test_two_ports_are_both_named() -> None:
    assert name_culprits(prove(build(32, 8, 2), slow_ports(4, 6))) == [
        ("port", 0, (), None, None, (2,)),
        ("port", 0, (), None, None, (3,)),
    ]


def test_a_node_is_named_instead_of_its_ports() -> None:
    assert name_culprits(prove(build(32, 8, 2), slow_ports(10, 11))) == [("node", None, (), None, None, (5,))]


def test_a_slow_half_of_a_unit_is_named_as_one() -> None:
    slow = [node * 2 + rail for node in range(4) for rail in range(2)]
    assert name_culprits(prove(build(32, 8, 2), slow_ports(*slow))) == [("unit", None, (), None, 0, (0, 1, 2, 3))]


def test_a_leaf_is_named_instead_of_its_ports_and_their_partners() -> None:
    topology = build(32, 8, 2)
    blame = prove(topology, lambda a, b, _: 0.0 if 3 in {topology.leaf_of[a], topology.leaf_of[b]} else 0.97)
    assert name_culprits(blame) == [("leaf", 1, (3,), None, None, ())]


def test_a_rail_that_is_low_everywhere_is_named_alone() -> None:
    blame = prove(build(32, 8, 2), lambda a, _b, _: 0.8 if a % 2 else 0.97)
    assert name_culprits(blame) == [("rail", 1, (), None, None, ())]


@pytest.mark.parametrize("dead", [0.0, 0.5])
def test_the_one_of_two_leaves_that_is_low_is_named_and_not_its_rail(dead: float) -> None:
    topology = build(16, 8, 2)
    leaf = topology.leaf_of[1]
    blame = prove(topology, lambda a, b, _: dead if leaf in {topology.leaf_of[a], topology.leaf_of[b]} else 0.97)
    assert name_culprits(blame) == [("leaf", 1, (leaf,), None, None, ())]


def test_all_rails_low_are_the_fabric() -> None:
    assert name_culprits(prove(build(32, 8, 2), lambda *_: 0.8)) == [("fabric", None, (), None, None, ())]


def test_low_only_between_leaves_is_the_fabric_of_the_rail() -> None:
    topology = build(64, 8, 2)
    blame = prove(topology, lambda a, b, _: 0.7 if topology.leaf_of[a] != topology.leaf_of[b] and a % 2 else 0.97)
    assert name_culprits(blame) == [("fabric", 1, (), None, None, ())]


def test_low_only_from_one_leaf_is_its_uplink() -> None:
    topology = build(64, 8, 2)

    def rate(a: int, b: int, _: int | None) -> float:
        leaves = {topology.leaf_of[a], topology.leaf_of[b]}
        return 0.6 if 4 in leaves and len(leaves) > 1 else 0.97

    assert name_culprits(prove(topology, rate)) == [("uplink", 0, (4,), None, None, ())]


def test_a_spine_that_is_down_is_no_fault_of_ports_although_two_near_values_are_low() -> None:
    topology = build(32, 8, 1, Uplinks(SPINES))
    near = {frozenset(pair) for pair in list_tests(next(plan_screen(topology)))[:2]}

    def rate(a: int, b: int, source_port: int | None) -> float:
        if source_port is not None:
            return 0.0 if source_port % SPINES == 1 else 0.97
        return 0.73 if topology.leaf_of[a] != topology.leaf_of[b] else 0.89 if frozenset((a, b)) in near else 0.97

    assert name_culprits(prove(topology, rate, cover=True)) == [("spine", 0, (), 1, None, ())]


def test_low_over_one_pair_of_leaves_is_their_path() -> None:
    topology = build(64, 8, 1)
    pairs = [
        {topology.leaf_of[a], topology.leaf_of[b]} for a, b in zip(*list(plan_screen(topology))[1][1:3], strict=True)
    ]
    first = next(pair for pair in pairs if len(pair) > 1)
    blame = prove(topology, lambda a, b, _: 0.6 if {topology.leaf_of[a], topology.leaf_of[b]} == first else 0.97)
    assert name_culprits(blame) == [("path", 0, tuple(sorted(first)), None, None, ())]


def rate_of_link(topology: FabricTopology, leaf: int, spine: int) -> Rate:
    def rate(a: int, b: int, source_port: int | None) -> float:
        is_low = source_port is not None and source_port % SPINES == spine
        return 0.8 if is_low and leaf in {topology.leaf_of[a], topology.leaf_of[b]} else 0.97

    return rate


def test_one_link_of_many_is_named_by_its_leaf_and_spine() -> None:
    topology = build(32, 8, 1, Uplinks(SPINES))
    blame = prove(topology, rate_of_link(topology, 2, 3), cover=True)
    assert name_culprits(blame) == [("uplink", 0, (2,), 3, None, ())]


def test_a_screen_alone_does_not_blame_a_link_of_many() -> None:
    topology = build(32, 8, 1, Uplinks(SPINES))
    assert prove(topology, rate_of_link(topology, 2, 3)) == Blame((), ())


def test_without_traces_the_leaf_of_a_link_is_named() -> None:
    topology = build(32, 8, 1, Uplinks(SPINES))
    blame = prove(topology, rate_of_link(topology, 2, 3), cover=True, traced=False)
    assert name_culprits(blame) == [("uplink", 0, (2,), None, None, ())]


def test_flows_of_all_leaves_through_one_spine_blame_the_spine() -> None:
    topology = build(32, 8, 1, Uplinks(SPINES))
    blame = prove(topology, lambda _a, _b, port: 0.6 if port is not None and port % SPINES == 1 else 0.97, cover=True)
    assert name_culprits(blame) == [("spine", 0, (), 1, None, ())]


def test_a_leaf_at_every_low_flow_is_blamed_although_most_low_flows_have_one_partner() -> None:
    topology = build(32, 8, 1, Uplinks(SPINES))

    def rate(a: int, b: int, source_port: int | None) -> float:
        leaves = {topology.leaf_of[a], topology.leaf_of[b]}
        is_hit = source_port is not None and source_port % SPINES == 3 and (0 in leaves or source_port % 7 == 0)
        return 0.5 if is_hit and 2 in leaves else 0.97

    assert name_culprits(prove(topology, rate, cover=True)) == [("uplink", 0, (2,), 3, None, ())]


def test_links_of_two_rails_are_probed_in_the_same_rounds_within_the_budget() -> None:
    topology, requests = build(32, 8, 2, Uplinks(SPINES)), list[Request]()

    def rate(a: int, b: int, source_port: int | None) -> float:
        leaves = {topology.leaf_of[a], topology.leaf_of[b]}
        is_low = source_port is not None and (source_port % SPINES, a % 2) in {(1, 0), (2, 1)} and leaves & {2, 5}
        return 0.5 if is_low else 0.97

    blame = prove(topology, rate, cover=True, requests=requests)
    assert name_culprits(blame) == [("uplink", 0, (2,), 1, None, ()), ("uplink", 1, (5,), 2, None, ())]
    assert sum(isinstance(request, Trace) for request in requests) == 2
    assert len(requests) <= compute_budget(topology, "cover").repeats


def test_a_round_with_a_wrong_number_of_values_is_refused() -> None:
    tests = next(plan_screen(build(8)))
    with pytest.raises(ValueError, match="argument"):
        next(investigate(build(8), [(tests, [0.97])]))


def test_two_leaves_cannot_tell_whose_link_is_low() -> None:
    topology = build(16, 8, 1, Uplinks(SPINES))
    blame = prove(topology, rate_of_link(topology, 0, 3), cover=True)
    assert name_culprits(blame) == [("path", 0, (0, 1), 3, None, ())]


def test_a_collision_that_is_gone_when_the_flow_is_alone_blames_nobody() -> None:
    topology, chance = build(32, 8, 1, Uplinks(SPINES)), random.Random(7)  # noqa: S311 - repeatable
    assert prove(
        topology, lambda _a, _b, port: chance.choice([0.48, 0.97, 0.97]) if port else 0.97, cover=True
    ) == Blame((), ())


def test_a_port_whose_repeats_never_come_back_is_undecided() -> None:
    values = iter([0.5] * 3)
    blame = prove(build(32, 8, 1), lambda a, b, _: next(values, math.nan) if 7 in {a, b} else 0.97)
    assert blame == Blame((), (7,))


@given(st.integers(0, 2**32), st.floats(0, 0.3))
def test_lost_values_blame_no_healthy_part(seed: int, lost: float) -> None:
    chance = random.Random(seed)  # noqa: S311 - repeatable

    def rate(a: int, b: int, _: int | None) -> float:
        return math.nan if chance.random() < lost else 0.2 if 11 in {a, b} else 0.97

    blame = prove(build(32, 8, 2), rate)
    assert name_culprits(blame) in ([("port", 1, (), None, None, (5,))], [])


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        pytest.param([], None, id="no value"),
        pytest.param([0.97], "sound", id="one good value"),
        pytest.param([0.5, 0.5], None, id="two low values"),
        pytest.param([0.5, 0.5, 0.5], "slow", id="three low values"),
        pytest.param([0.97, 0.0, 0.97], "sound", id="one partner was slow"),
        pytest.param([0.9] * 9, None, id="at the limit"),
    ],
)
def test_repeats_decide_by_their_median(values: list[float], verdict: str | None) -> None:
    assert decide(values, 0.03) == verdict


def test_a_culprit_says_where_it_is_how_much_is_missing_and_what_to_do() -> None:
    culprit = Culprit("port", 0.3, rail=1, nodes=(5,))
    assert describe(culprit, build(32, 8, 2)) == (
        "rail 1 of n6 is low by 30%: run `trackbed doctor` on the node; compare PCIe width and error counters, "
        "then swap the cable"
    )
    culprit = Culprit("uplink", 0.15, rail=0, leaves=(2,), pod=0)
    assert describe(culprit, build(32, 8, 2)).startswith(
        "the uplink of leaf leaf-u1-r0 to a spine that was not traced is low by 15%: "
    )


def vary(seed: int, loss: Callable[[random.Random], float], noise: float, bad: int) -> Rate:
    """Return rates with noise, of which those of one port vary."""
    rng = random.Random(seed)  # noqa: S311 - a simulation
    return lambda a, b, _: min(rng.gauss(0.97, noise), loss(rng) if bad in {a, b} else 1.0)


@pytest.mark.parametrize(("nodes", "unit_nodes", "rails"), [(4, 2, 1), (4, 4, 1), (4, 2, 2), (8, 4, 2)])
def test_a_port_whose_loss_varies_is_named_in_a_small_fabric(nodes: int, unit_nodes: int, rails: int) -> None:
    topology = build(nodes, unit_nodes, rails)
    named = [
        name_culprits(prove(topology, vary(seed, lambda rng: rng.uniform(0.45, 0.93), 0.03, rails)))
        for seed in range(100)
    ]
    port = name_culprits(prove(topology, slow_ports(rails)))
    assert [culprits for culprits in named if culprits not in (port, [])] == []
    assert named.count(port) >= 95


@pytest.mark.parametrize(("nodes", "unit_nodes"), [(4, 2), (4, 4)])
def test_a_slow_port_beside_noise_is_not_its_rail(nodes: int, unit_nodes: int) -> None:
    topology = build(nodes, unit_nodes, 1)
    named = [name_culprits(prove(topology, vary(seed, lambda _: 0.6, 0.05, 1))) for seed in range(100)]
    assert named.count(name_culprits(prove(topology, slow_ports(1)))) >= 95
