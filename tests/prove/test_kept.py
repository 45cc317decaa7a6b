"""A proof that goes on from answers that an earlier run left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.prove.hosts import Hosts, build_plan
from trackbed.prove.kept import Kept, KeptTest, leave_out_kept, list_keys
from trackbed.prove.proof import prove
from trackbed.prove.rungs import LADDER
from trackbed.prove.sheets import Sheet

PLAN = build_plan(8)
SLOW = {("n3", 1): 200.0}


def answer_all(hosts: Hosts) -> dict[KeptTest, tuple[object, object]]:
    """Return what hosts answered to the tests of their sheets."""
    steps: dict[KeptTest, dict[int, object]] = {}
    for sheet in hosts.sheets:
        keys = list_keys(sheet)
        for node, step_id, step in list_steps(sheet):
            if step_id // 2 in keys:
                steps.setdefault(keys[step_id // 2], {})[step_id % 2] = hosts.answer(node, step)
    return {key: (ends[0], ends[1]) for key, ends in steps.items()}


def list_steps(sheet: Sheet) -> list[tuple[str, int, Mapping[str, Any]]]:
    return [
        (node, step_id, step)
        for tests in sheet.rounds
        for node, numbered in tests.steps.items()
        for step_id, step in numbered
    ]


def list_tests(sheets: list[Sheet]) -> set[KeptTest]:
    """Return the tests that these sheets run."""
    return {
        keys[step_id // 2]
        for sheet in sheets
        for keys in [list_keys(sheet)]
        for _, step_id, _ in list_steps(sheet)
        if keys
    }


WHOLE = Hosts(PLAN, gbps=SLOW)
PROOF = WHOLE.prove()
ANSWERS = answer_all(WHOLE)


@given(kept=st.sets(st.sampled_from(sorted(ANSWERS))))
def test_what_is_kept_is_not_run_again_and_the_proof_is_the_same(kept: set[KeptTest]) -> None:
    hosts = Hosts(PLAN, gbps=SLOW)
    proof = hosts.drive(leave_out_kept(prove(PLAN, "screen", LADDER), {key: ANSWERS[key] for key in kept}))
    assert proof == PROOF
    assert list_tests(hosts.sheets) == ANSWERS.keys() - kept


def test_files_are_read_again_and_nothing_else_where_all_is_kept() -> None:
    hosts = Hosts(PLAN, gbps=SLOW)
    assert hosts.drive(leave_out_kept(prove(PLAN, "screen", LADDER), ANSWERS)) == PROOF
    assert [sheet.title for sheet in hosts.sheets] == ["files", "files"]


def test_rounds_keep_their_place_and_take_no_time_if_all_of_them_is_kept() -> None:
    sheet = next(sheet for sheet in WHOLE.sheets if sheet.title == "write_bw")
    first = {number for number, _ in sheet.rounds[0].paths.items()}
    kept: Kept = {key: ANSWERS[key] for number, key in list_keys(sheet).items() if number in first}
    hosts = Hosts(PLAN, gbps=SLOW)
    hosts.drive(leave_out_kept(prove(PLAN, "screen", LADDER), kept))
    left = next(sheet for sheet in hosts.sheets if sheet.title == "write_bw")
    assert [tests.seconds for tests in left.rounds] == [0.0, sheet.rounds[1].seconds, sheet.rounds[2].seconds]
    assert left.rounds[1:] == sheet.rounds[1:]


@pytest.mark.parametrize(
    ("old", "new"), [(" 0 ", " 1 "), ("rail0", "mlx5_7"), (" 400", " 200")], ids=["rail", "device", "rate"]
)
def test_an_answer_of_another_path_is_not_taken(old: str, new: str) -> None:
    """A new pod may have another VF, whose device perftest's answer would not name: its tests are run again."""
    others = {key._replace(path=key.path.replace(old, new)): ends for key, ends in ANSWERS.items() if old in key.path}
    assert others
    hosts = Hosts(PLAN, gbps=SLOW)
    hosts.drive(leave_out_kept(prove(PLAN, "screen", LADDER), others))
    assert list_tests(hosts.sheets) == ANSWERS.keys()


def test_pods_are_read_again() -> None:
    before = Hosts(PLAN, gbps=SLOW)
    proof = before.prove(in_pods=True)
    hosts = Hosts(PLAN, gbps=SLOW)
    again = hosts.drive(leave_out_kept(prove(PLAN, "screen", LADDER, in_pods=True), answer_all(before)))
    assert again == proof
    assert [sheet.title for sheet in hosts.sheets] == ["pods", "files", "files"]
