"""A plan that does not fit a machine is refused before anything is changed."""

import pytest

from tests.host.places import PORTS, Host, everything
from tests.host.steps.fabrics import FLAT, P2P, node_plan
from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.change import Change, Comparison, count_changes
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.apply import ApplyOptions, MisfitError, apply
from trackbed.host.transaction.compare import compare
from trackbed.host.transaction.fit import Fit, explain_misfit, explain_refusal

_ALL = ("rail0", "rail1")
_HERE = ("eth0", "eth1", "eth2")


@pytest.mark.parametrize(
    ("fit", "reason"),
    [
        (Fit(41, 0, 0, _ALL, (), _HERE), ""),
        (Fit(41, 13, 13, _ALL, (), _HERE), ""),
        (Fit(41, 14, 14, _ALL, (), _HERE), "14 of 41 addresses, routes, rules and VFs would be removed"),
        (Fit(0, 0, 3, _ALL, (), _HERE), ""),
        (Fit(41, 0, 0, _ALL, ("rail1",), _HERE), ""),
        (
            Fit(41, 1, 1, _ALL, ("rail1",), _HERE),
            (
                "this host lacks 1 of the 2 planned ports (rail1),"
                " and 1 of 41 addresses, routes, rules and VFs would be removed"
            ),
        ),
        (
            Fit(0, 0, 0, _ALL, _ALL, _HERE),
            "this host has none of the 2 planned ports (here: eth0, eth1, eth2)",
        ),
        (Fit(0, 0, 0, _ALL, _ALL, ()), "this host has none of the 2 planned ports (here: no port)"),
        (Fit(9, 0, 0, _ALL, _ALL, ()), ""),
        (Fit(9, 0, 0, (), (), _HERE), ""),
        (
            Fit(41, 8, 8, _ALL, (), _HERE, ("10.0.0.1/32",)),
            "the rules of this host are those of another plan: from 10.0.0.1/32",
        ),
    ],
    ids=[
        "same",
        "a third",
        "more",
        "files alone",
        "one absent",
        "one absent, one lost",
        "all absent",
        "no port",
        "all in pods",
        "no rail",
        "another node",
    ],
)
def test_a_plan_fits_that_loses_a_third_at_most_and_has_its_ports(fit: Fit, reason: str) -> None:
    assert explain_misfit(fit) == reason


@pytest.mark.parametrize(("removals", "refused"), [(None, True), (34, False), (33, True), (0, True)])
def test_a_misfit_is_applied_only_with_its_own_number_of_removals(removals: int | None, refused: bool) -> None:
    assert bool(explain_refusal(Fit(34, 34, 34, _ALL, _ALL, _HERE), removals)) is refused


def test_a_wrong_number_is_refused_also_where_the_plan_fits() -> None:
    assert explain_refusal(Fit(41, 2, 2, _ALL, (), _HERE), 3).startswith("2 entries would be removed, not 3")


def test_removals_count_what_is_lost() -> None:
    changes = (
        Change(None, "vfs", 0, "VFs of rail0", "8", "4", "change", (), removed=4),
        Change(None, "limits", None, "old file /etc/x", "ours", "-", "remove", ()),
        Change(None, "routing", 0, "route", "-", "via", "add", ()),
    )
    assert count_changes(Comparison(changes, ())) == (1, 1, 5)


def test_a_plan_of_other_ports_changes_nothing(place: Host) -> None:
    node = node_plan(P2P, PORTS)
    apply(place.machine, iter_settings(node), place.records)
    before = everything(place.machine)
    wrong = node_plan(P2P, '["enp1s0f0np0", "enp1s0f1np1"]')
    with pytest.raises(MisfitError, match=r"none of the 2 planned ports \(here: .*rail0.*nothing was"):
        apply(place.machine, iter_settings(wrong), place.records)
    assert everything(place.machine) == before


def test_a_confirmed_plan_of_another_scheme_is_applied(place: Host) -> None:
    first, second = node_plan(P2P, PORTS), node_plan(FLAT, PORTS)
    apply(place.machine, iter_settings(first), place.records)
    removals = count_changes(_compare(place, second)).remove
    with pytest.raises(MisfitError, match=f"--removals {removals} applies it all the same"):
        apply(place.machine, iter_settings(second), place.records)
    apply(place.machine, iter_settings(second), place.records, options=ApplyOptions(removals=removals))
    assert _compare(place, second).changes == ()


def _compare(place: Host, node: NodePlan) -> Comparison:
    return compare(place.machine, iter_settings(node))
