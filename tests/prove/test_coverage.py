import pytest
from hypothesis import given

from tests.prove.topologies import build, topologies
from trackbed.prove.budget import compute_link_probabilities
from trackbed.prove.coverage import compute_hit_probability, count_cover_rounds, count_flows_needed
from trackbed.prove.rounds import count_rounds_of_cover
from trackbed.prove.topology import FabricTopology, Uplinks


@pytest.mark.parametrize(
    ("flows", "links", "needed", "probability"),
    [
        pytest.param(8, 32, 1, 1 - (31 / 32) ** 8, id="one flow is enough"),
        pytest.param(2, 2, 2, 0.25, id="two flows on one of two links"),
        pytest.param(1, 4, 2, 0.0, id="too few flows"),
        pytest.param(1, 1, 1, 1.0, id="one link"),
        pytest.param(0, 8, 1, 0.0, id="no flow"),
    ],
)
def test_the_hits_of_a_link_are_binomial(flows: int, links: int, needed: int, probability: float) -> None:
    assert compute_hit_probability(flows, links, needed) == pytest.approx(probability)


@pytest.mark.parametrize(("flow", "link", "needed"), [(1, 1, 1), (1, 2, 1), (1, 4, 2), (0.25, 1, 2), (1, 0.25, 1)])
def test_flows_offer_half_the_rate_of_a_link(flow: float, link: float, needed: int) -> None:
    assert count_flows_needed(flow, link) == needed


def test_a_certain_hit_takes_one_round() -> None:
    assert count_cover_rounds(1.0) == 1


@given(topologies())
def test_a_cover_hits_each_link_that_two_leaves_share_with_95_percent_or_more(topology: FabricTopology) -> None:
    probabilities = compute_link_probabilities(topology, count_rounds_of_cover(topology))
    for rail in range(topology.rails):
        for leaves in topology.iter_pods(rail):
            for leaf in leaves:
                hit = probabilities[topology.leaf_of[leaf[0]]]
                assert hit >= 0.95 if len(leaves) > 1 else hit == 0


def test_half_of_the_rounds_hit_with_less() -> None:
    topology = build(32, 8, 1, Uplinks(8))
    rounds = count_rounds_of_cover(topology)
    assert compute_link_probabilities(topology, rounds)[0] >= 0.999
    assert 0.9 < compute_link_probabilities(topology, rounds // 2)[0] < 0.98
