"""What pods with rails cost: requests of others are counted, and figures reach the phase and the table."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient
from trackbed_lab.kubernetes.cost import count_requests, measure_cost, measure_memory
from trackbed_lab.run_result import Phase
from trackbed_lab.vm.channel import CommandResult
from trackbed_lab.vm.run import VmRun

from bench import stack_runs
from bench.stack_runs import HEADER, iter_rows, read_runs, run_stacks


def format_request(verb: str, resource: str, count: int) -> str:
    """Return a line of an API server's metrics."""
    labels = f'code="200",component="apiserver",dry_run="",group="",resource="{resource}",scope="resource"'
    return f'apiserver_request_total{{{labels},subresource="",verb="{verb}",version="v1"}} {count}\n'


METRICS = (
    "# HELP apiserver_request_total [STABLE] Counter of apiserver requests\n"
    + format_request("GET", "pods", 7)
    + format_request("PATCH", "pods", 5)
    + format_request("PUT", "leases", 90)
    + format_request("GET", "", 30)
    + format_request("LIST", "pods", 4).replace("_total", "_terminations_total")
)


def build_run(phases: list[Phase] | None = None) -> VmRun:
    """Return a run without servers."""
    return VmRun(cast("Any", None), cast("Any", None), (phases if phases is not None else []).append)


def test_requests_for_resources_are_counted_and_renewals_of_leases_are_not() -> None:
    assert count_requests(METRICS) == (12, 5)
    assert count_requests("") == (0, 0)


def test_the_labs_requests_are_not_part_of_the_cost() -> None:
    metrics = iter([METRICS, METRICS + format_request("POST", "pods", 3) + format_request("LIST", "nodes", 8)])
    client = SimpleNamespace(sent=40, written=2, read_metrics=lambda: next(metrics))
    run = build_run()
    with measure_cost(run, cast("BlockingClient", client)):
        client.sent, client.written = 46, 3
    assert run.figures.pop("seconds") < 60
    assert run.figures == {"requests": 5, "writes": 2}


def test_memory_is_that_of_all_pods_of_all_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = [b"Pss:   2048 kB\nPss:   1024 kB\n", b"Pss:   1536 kB\n", b""]
    results = [CommandResult(0, output, b"") for output in outputs]
    run = build_run()
    monkeypatch.setattr(VmRun, "run_on_servers", lambda *_: results)
    measure_memory(run)
    assert run.figures == {"memoryMib": 4}


def test_figures_belong_to_the_phase_that_measured_them() -> None:
    phases: list[Phase] = []
    run = build_run(phases)

    def measure() -> tuple[str, bool]:
        run.figures["seconds"] = 2.5
        return "measured", True

    run.run_phase("job", measure)
    run.run_phase("devices", lambda: ("seen", True))
    assert [phase.figures for phase in phases] == [{"seconds": 2.5}, {}]


def test_a_row_compares_with_ours_and_has_no_figure_that_was_not_measured() -> None:
    up, back = {"seconds": 20.0, "requests": 60, "writes": 12}, {"seconds": 9.6, "requests": 1234, "writes": 5}
    ours = {
        "stack": "native",
        "day": "d",
        "status": 0,
        "seconds": 400,
        "figures": {"job": up, "back": back | {"memoryMib": 90}},
    }
    other = {"stack": "other", "day": "d", "status": 1, "seconds": 1200, "figures": {"job": up | {"seconds": 50.0}}}
    rows = list(iter_rows([ours, other]))
    assert rows[0] == ["native", "d", "as planned", "400 s", "20 s", "× 1.0", "60 (12)", "10 s", "1,234 (5)", "90 MiB"]
    assert rows[1] == ["other", "d", "NOT as planned", "1,200 s", "50 s", "× 2.5", "60 (12)", "-", "-", "-"]
    assert {len(row) for row in rows} == {len(HEADER)}
    assert next(iter_rows([other]))[5] == "-"


def build_stack_run(status: int) -> dict[str, Any]:
    """Return what is kept of a run of ours that ended with a status."""
    return {"stack": "native", "day": "d", "status": status, "seconds": 5, "figures": {}}


def test_a_run_that_never_took_place_replaces_no_measured_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    statuses = iter([0, 3, 1])
    monkeypatch.setattr(stack_runs, "RUNS", tmp_path / "runs.json")
    monkeypatch.setattr(stack_runs, "_run_stack", lambda *_: build_stack_run(next(statuses)))
    assert run_stacks(["native"], None) == 0
    assert run_stacks(["native"], None) == 3
    assert [run["status"] for run in read_runs()] == [0]
    assert run_stacks(["native"], None) == 1
    assert [run["status"] for run in read_runs()] == [1]
