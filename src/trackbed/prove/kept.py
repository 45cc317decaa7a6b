"""Answers that a proof has from a run that did not end: their tests are left out of its sheets.

A test is known by the title of its sheet, its number there, and the ports, devices and rate of its path. So an answer
of another test is never taken for one, nor that of a pod that had another VF. A test with the answers of both ends is
not run again. Sheets without tests, which read files and the ends of pods, are read again: they say what is there now.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import NamedTuple

from trackbed.prove.proof import Proof
from trackbed.prove.rungs.rung import ProbedPath
from trackbed.prove.sheets import Answers, Sheet, SheetRound


class KeptTest(NamedTuple):
    """A test of a sheet."""

    sheet: str
    number: int
    path: str


Kept = Mapping[KeptTest, tuple[object, object]]
"""Answers of the ends a and b of tests."""


def list_keys(sheet: Sheet) -> dict[int, KeptTest]:
    """Return the key of each test of a sheet, by its number."""
    return {
        number: KeptTest(sheet.title, number, _name_path(path))
        for tests in sheet.rounds
        for number, path in tests.paths.items()
    }


def _name_path(path: ProbedPath) -> str:
    ends = (f"{end.node} {end.rail} {end.rdma}" for end in (path.a, path.b))
    return f"{' '.join(ends)} {path.source_port or '-'} {path.rate_gbps or '-'}"


def leave_out_kept(proof: Generator[Sheet, Answers, Proof], kept: Kept) -> Generator[Sheet, Answers, Proof]:
    """Yield the sheets of a proof without the tests that are kept, and return the proof.

    A sheet that has no other tests is not yielded.
    """
    answers = Answers({}, {})
    try:
        sheet = next(proof)
        while True:
            outputs, left = _split_sheet(sheet, kept)
            if left is not None:
                answers = yield left
                outputs |= answers.outputs
            sheet = proof.send(Answers(outputs, answers.failures))
    except StopIteration as end:
        result: Proof = end.value
        return result


def _split_sheet(sheet: Sheet, kept: Kept) -> tuple[dict[int, object], Sheet | None]:
    """Return the kept answers of a sheet by step, and the sheet without their tests; None if nothing is left of it."""
    numbers = {number: kept[key] for number, key in list_keys(sheet).items() if key in kept}
    if not numbers:
        return {}, sheet
    outputs = {2 * number + side: output for number, ends in numbers.items() for side, output in enumerate(ends)}
    left = sheet._replace(rounds=tuple(_leave_out(tests, outputs) for tests in sheet.rounds))
    return outputs, left if any(tests.steps for tests in left.rounds) else None


def _leave_out(tests: SheetRound, outputs: Mapping[int, object]) -> SheetRound:
    """Return a round without the steps that have outputs. It keeps its place, and takes no time if it is empty."""
    steps = {
        node: [(step_id, step) for step_id, step in numbered if step_id not in outputs]
        for node, numbered in tests.steps.items()
    }
    steps = {node: numbered for node, numbered in steps.items() if numbered}
    return tests._replace(seconds=tests.seconds if steps else 0.0, steps=steps)
