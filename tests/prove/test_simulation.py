"""A part of the simulation that `scripts/bench prove` runs whole; seeds that no threshold was chosen with."""

import random

import pytest

from bench.prove import HELD_OUT, build_fabric, prepare, prove, run_case, run_peers
from bench.prove_cases import LOSSES, PLACES, Case, Incident, list_cases
from bench.prove_network import LOST, NOISE, SOUND, Faults, Network
from trackbed.prove.rounds import plan_screen


@pytest.mark.parametrize("kind", LOSSES)
def test_the_culprit_is_named_first_and_no_healthy_part_is_blamed(kind: str) -> None:
    runs = [run_case(32, Case(kind, loss, place), HELD_OUT) for loss in LOSSES[kind] for place in PLACES]
    assert [(run.named, run.blamed) for run in runs] == [(True, 0)] * len(runs)


def test_there_are_60_cases_of_11_kinds() -> None:
    assert len(list_cases()) >= 60
    assert len({case.kind for case in list_cases()}) == 11


def test_a_healthy_fabric_with_noise_blames_nobody() -> None:
    fabrics = prepare(32, 0, cover=True, traced=True)
    for seed in range(10):
        blame, _ = prove(fabrics, Incident(Faults(), ()), random.Random(seed))  # noqa: S311 - repeatable
        assert blame.culprits == ()


def test_sound_values_have_the_mean_and_the_noise_of_the_goals() -> None:
    network, chance = Network(build_fabric(128), 0), random.Random(1)  # noqa: S311 - repeatable
    traffic = network.prepare(next(plan_screen(network.topology)))
    values = [value for _ in range(10) for value in network.measure(traffic, Faults(), chance)]
    measured = [value for value in values if value == value]  # noqa: PLR0124 - NaN
    center = sum(measured) / len(measured)
    assert center == pytest.approx(SOUND, abs=0.002)
    assert sum((value - center) ** 2 for value in measured) / len(measured) == pytest.approx(
        (SOUND * NOISE) ** 2, rel=0.1
    )
    assert 1 - len(measured) / len(values) == pytest.approx(LOST, abs=0.004)


def test_a_peer_with_one_partner_labels_the_partner_too() -> None:
    runs = {run.label: run for run in run_peers(32, Case("bad NIC", 1.0, PLACES[0]), HELD_OUT)}
    assert runs["one partner"].blamed >= 1
    assert runs["bisection"].named
