from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.prove.topologies import build, list_tests, topologies
from trackbed.prove.rounds import PLANNERS, plan_cover, plan_full, plan_matrix, plan_rounds, plan_screen
from trackbed.prove.topology import NO_LEAF, FabricTopology, Uplinks


@given(topologies(), st.sampled_from(sorted(PLANNERS)))
def test_a_port_takes_part_in_one_test_of_a_round_at_most(topology: FabricTopology, mode: str) -> None:
    for tests in PLANNERS[mode](topology):
        ports = [*tests.a, *tests.b]
        assert len(set(ports)) == len(ports)
        assert all(topology.leaf_of[port] != NO_LEAF for port in ports)


@given(topologies())
def test_a_screen_has_three_rounds_in_which_one_port_of_a_rail_rests_at_most(topology: FabricTopology) -> None:
    rounds = list(plan_screen(topology))
    assert len(rounds) == 3
    for tests in rounds:
        tested = Counter(port % topology.rails for port in (*tests.a, *tests.b))
        counts = [sum(map(len, leaves)) for leaves in topology.ports]
        assert all(counts[rail] - tested[rail] == counts[rail] % 2 for rail in range(topology.rails))


@given(topologies())
def test_a_screen_stays_within_a_rail(topology: FabricTopology) -> None:
    for tests in plan_screen(topology):
        assert all(a % topology.rails == b % topology.rails for a, b in list_tests(tests))


def test_a_screen_goes_within_a_leaf_then_to_another_leaf_then_to_another_pod() -> None:
    topology = build(32, 8, 1, Uplinks(32, units_per_pod=2))
    kinds = [
        Counter(
            (
                topology.leaf_of[a] == topology.leaf_of[b],
                topology.pods[topology.leaf_of[a]] == topology.pods[topology.leaf_of[b]],
            )
            for a, b in list_tests(tests)
        )
        for tests in plan_screen(topology)
    ]
    assert kinds == [{(True, True): 16}, {(False, True): 16}, {(False, False): 16}]


@given(st.integers(3, 70), st.integers(1, 3))
def test_a_screen_of_one_leaf_tests_no_pair_twice(nodes: int, rails: int) -> None:
    tests = [frozenset(pair) for tests in plan_screen(build(nodes, nodes, rails)) for pair in list_tests(tests)]
    assert len(set(tests)) == len(tests)


@pytest.mark.parametrize("ports", [2, 3, 4, 5, 8, 16, 32])
def test_ports_of_two_leaves_have_other_partners_in_each_round(ports: int) -> None:
    tests = [pair for tests in plan_screen(build(2 * ports, ports)) for pair in list_tests(tests)]
    assert len(set(tests)) == len(tests)


def test_tests_between_leaves_fill_three_quarters_of_the_uplinks() -> None:
    topology = build(32, 16, 1, Uplinks(16))
    far = [
        sum(topology.leaf_of[a] != topology.leaf_of[b] for a, b in list_tests(tests)) for tests in plan_screen(topology)
    ]
    assert far == [0, 12, 12]


@pytest.mark.parametrize("half", [0, 1, 3])
def test_a_full_proof_pairs_all_ports_of_a_rail_exactly_once(half: int) -> None:
    topology = build(9, 4, 2, half=half)
    met = sorted(pair for tests in plan_full(topology) for pair in list_tests(tests))
    rails = [sorted(port for leaf in leaves for port in leaf) for leaves in topology.ports]
    assert met == sorted(pair for ports in rails for pair in combinations(ports, 2))


@given(topologies())
def test_a_full_proof_needs_n_minus_1_rounds_or_n(topology: FabricTopology) -> None:
    largest = max(sum(map(len, leaves)) for leaves in topology.ports)
    assert len(list(plan_full(topology))) == (largest - 1 + largest % 2 if largest > 1 else 0)


def test_a_matrix_tries_each_rail_with_each_rail_on_each_node() -> None:
    topology = build(8, 8, 4)
    met = Counter(
        (node, port % 4, other % 4)
        for tests in plan_matrix(topology)
        for a, b in list_tests(tests)
        for port, other in ((a, b), (b, a))
        for node in [port // 4]
    )
    assert {(rail, other) for _, rail, other in met} == {(rail, other) for rail in range(4) for other in range(4)}
    assert Counter(node for node, _, _ in met.elements()) == dict.fromkeys(range(8), 16)


@given(topologies(), st.sampled_from(["screen", "full", "matrix"]))
def test_each_port_with_a_partner_on_its_rail_meets_one(topology: FabricTopology, mode: str) -> None:
    rounds = [list_tests(tests) for tests in plan_rounds(topology, mode)]
    paired = {
        port for tests in rounds for pair in tests if len({p % topology.rails for p in pair}) == 1 for port in pair
    }
    rails = [[port for leaf in leaves for port in leaf] for leaves in topology.ports]
    assert paired == {port for ports in rails if len(ports) > 1 for port in ports}
    assert all(len({port for pair in tests for port in pair}) == 2 * len(tests) for tests in rounds)


@pytest.mark.parametrize(("nodes", "rounds"), [(4, 2), (5, 3), (1, 2)])
def test_a_matrix_has_a_further_round_where_a_node_rests_while_rails_meet_themselves(nodes: int, rounds: int) -> None:
    assert len(list(plan_rounds(build(nodes, 4, 2), "matrix"))) == rounds


def test_flows_of_a_cover_go_between_leaves_of_one_pod() -> None:
    topology = build(32, 4, 2, Uplinks(4, units_per_pod=4))
    for tests in plan_cover(topology):
        assert len(tests.source_ports) == len(tests.a) > 0
        for a, b in zip(tests.a, tests.b, strict=True):
            leaves = topology.leaf_of[a], topology.leaf_of[b]
            assert leaves[0] != leaves[1]
            assert topology.pods[leaves[0]] == topology.pods[leaves[1]]


def test_a_fabric_of_one_leaf_has_no_uplink_to_cover() -> None:
    assert list(plan_cover(build(8, 8))) == []


def test_a_round_for_late_nodes_has_all_of_their_tests_and_no_other() -> None:
    topology = build(16, 8, 2)
    tests = next(plan_screen(topology))
    late = tests.restrict([3, 5], topology.rails)
    assert list_tests(late) == [pair for pair in list_tests(tests) if {pair[0] // 2, pair[1] // 2} & {3, 5}]
    assert len(late.a) == 4
