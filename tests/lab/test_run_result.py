"""What a run says of its pairs: as planned, not as planned, and not tested, which is neither."""

from __future__ import annotations

import msgspec
import pytest
from trackbed_lab.run import summarize_pairs
from trackbed_lab.run_result import AS_PLANNED, NOT_AS_PLANNED, NOT_TESTED, Phase, RailPair, RunResult

GOOD = RailPair(
    from_node="a",
    from_rail=0,
    to_node="b",
    to_rail=0,
    expected=True,
    answered=True,
    source_ok=True,
    expected_hops=1,
    hops=1,
)
SILENT = msgspec.structs.replace(GOOD, answered=False, hops=None)
UNTESTED = msgspec.structs.replace(SILENT, tested=False)
ISOLATED_UNTESTED = msgspec.structs.replace(UNTESTED, expected=False)
NO_SOCKET = msgspec.structs.replace(UNTESTED, error="a 0: no socket on its address")
RUNS = {
    "all as planned": ((GOOD, GOOD), "2 of 2 rail pairs as planned", True, AS_PLANNED),
    "one silent": ((GOOD, SILENT), "1 of 2 rail pairs as planned", False, NOT_AS_PLANNED),
    "one not tested": ((GOOD, UNTESTED), "1 of 2 rail pairs as planned, 1 not tested", None, NOT_TESTED),
    "silence that nobody waited for": (
        (GOOD, ISOLATED_UNTESTED),
        "1 of 2 rail pairs as planned, 1 not tested",
        None,
        NOT_TESTED,
    ),
    "the reason is said": (
        (GOOD, UNTESTED, NO_SOCKET),
        "1 of 3 rail pairs as planned, 2 not tested (a 0: no socket on its address)",
        None,
        NOT_TESTED,
    ),
    "a failure is not hidden": (
        (SILENT, UNTESTED),
        "0 of 2 rail pairs as planned, 1 not tested",
        False,
        NOT_AS_PLANNED,
    ),
    "no pairs at all": ((), "0 of 0 rail pairs as planned", None, NOT_TESTED),
}


@pytest.mark.parametrize(("pairs", "summary", "ok", "status"), RUNS.values(), ids=RUNS)
def test_pairs_are_judged_by_what_was_tested(
    *, pairs: tuple[RailPair, ...], summary: str, ok: bool | None, status: int
) -> None:
    assert summarize_pairs(pairs) == (summary, ok)
    assert build_result(pairs, Phase("prove", 1.0, summary, ok)).exit_status == status


def build_result(pairs: tuple[RailPair, ...], phase: Phase) -> RunResult:
    return RunResult(
        fabric="f",
        scheme="point-to-point",
        version="1",
        kernel="6",
        cores=2,
        finished_at="2026-01-01T00:00:00Z",
        mtu_bytes=9000,
        cross_rail="routed",
        pod_mode="move",
        nodes=(),
        rails=(),
        ports=(),
        phases=(phase,),
        pairs=pairs,
        fault=None,
        findings=(),
    )
