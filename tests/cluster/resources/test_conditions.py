from __future__ import annotations

from trackbed.cluster.resources.conditions import Condition, find_condition, put_condition


def test_a_condition_tells_since_when_its_status_is_so() -> None:
    first = put_condition((), Condition("Prepared", "False", "Differs", "3 changes"), "noon")
    again = put_condition(first, Condition("Prepared", "False", "Failed", "no space"), "one")
    assert again == (Condition("Prepared", "False", "Failed", "no space", "noon"),)
    assert (
        find_condition(
            put_condition(again, Condition("Prepared", "True", "AsPlanned"), "two"), "Prepared"
        ).last_transition_time
        == "two"
    )


def test_conditions_of_others_stay() -> None:
    theirs = Condition("Rolled", "True", "Sound", "", "noon")
    assert theirs in put_condition((theirs, Condition("Prepared", "Unknown")), Condition("Prepared", "True"), "one")


def test_what_nobody_stated_is_unknown() -> None:
    assert find_condition((), "Prepared").status == "Unknown"
