"""Fabrics that do not fit an emulated server: each is sound by itself, and what became of it is judged."""

from __future__ import annotations

import pytest
from trackbed_lab.vm.channel import CommandResult
from trackbed_lab.vm.misfit import REFUSED, judge_attempts, list_misfits, render_attempt

from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan


@pytest.mark.parametrize("fabric", list_misfits(["node-0", "node-1"]).values(), ids=list_misfits([]))
def test_it_is_a_sound_fabric_of_these_nodes(fabric: str) -> None:
    plan = compute_plan(load_fabric(fabric.encode(), "misfit.yaml").fabric, {})
    assert [node.name for node in plan.nodes] == ["node-0", "node-1"]
    assert f"<<'END'\n{fabric}END\n" in render_attempt(fabric)


@pytest.mark.parametrize(("status", "ok"), [(REFUSED, True), (0, False), (1, False)])
def test_an_apply_that_is_not_refused_fails_the_run(status: int, ok: bool) -> None:
    results = [("ports", CommandResult(REFUSED, b"", b"")), ("addresses", CommandResult(status, b"", b""))]
    summary, good = judge_attempts(results)
    assert good is ok
    assert ok or f"addresses: status {status}" in summary
