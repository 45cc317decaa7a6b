"""The command on emulated servers: when what it printed is as planned."""

from __future__ import annotations

from typing import Any

import pytest
from trackbed_lab.vm.proof_command import CommandProof


def build_document(culprits: int = 0, **verdicts: int) -> dict[str, Any]:
    """Return the document of a proof with these verdicts on 40 tests."""
    counts = {"pass": 0, "warn": 0, "fail": 0, "unknown": 0, "not-tested": 0, **verdicts}
    rung = {"rung": "write_bw", "planned": sum(counts.values()), "verdicts": counts}
    return {"culprits": [{"where": "rail 1 of node-1"}] * culprits, "rungs": [rung], "summary": "proved"}


@pytest.mark.parametrize(
    ("document", "is_sound"),
    [
        (build_document(**{"pass": 30, "warn": 10}), True),
        (build_document(**{"pass": 36, "unknown": 4}), True),
        (build_document(**{"pass": 35, "unknown": 5}), False),
        (build_document(**{"pass": 35, "not-tested": 5}), False),
        (build_document(culprits=1, **{"pass": 40}), False),
        ({}, False),
    ],
)
def test_a_proof_is_sound_if_nobody_is_blamed_and_nearly_all_pass(document: dict[str, Any], is_sound: bool) -> None:
    assert CommandProof(document, [], 0).is_sound() is is_sound


def test_what_was_lost_and_repeated_is_told_beside_the_verdict() -> None:
    events = ["write_bw: round 1 of 3", "node-1 was lost: it died", "write_bw: round 2 is repeated for the 2 tests"]
    summary = CommandProof(build_document(culprits=1), events, 1).summarize()
    assert summary == f"rail 1 of node-1; proved; {events[1]}; {events[2]}"
    assert CommandProof({}, [], -9).summarize() == "exit status -9"
