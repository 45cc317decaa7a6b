"""Helm values of the Fabric's own: merged over those of the stack, and refused for a chart that is not installed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.stacks.sites import SITES, alike, planned
from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.install.steps import InstallChart, build_steps
from trackbed.cluster.stacks.install.values import merge_values
from trackbed.cluster.stacks.refusals import find_refusals
from trackbed.fabric.plan.plan import Plan

NAME = "network-operator-sriov"
STACK = load_stack(NAME)


def plan_with(monkeypatch: pytest.MonkeyPatch, **values: dict[str, Any]) -> Plan:
    overrides = {component.replace("_", "-"): fields for component, fields in values.items()}
    monkeypatch.setitem(SITES, NAME, SITES[NAME] | {"kubernetes": {"values": overrides}})
    return planned(NAME, alike(2, 2), 2)


def test_own_values_win_and_the_stacks_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = {"gdrcopy": {"enabled": True}, "driver": {"rdma": {"useHostMofed": False}}}
    plan = plan_with(monkeypatch, nvidia_gpu_operator=gpu)
    (step,) = [
        step
        for step in build_steps(STACK, plan)
        if isinstance(step, InstallChart) and step.chart.component == "nvidia-gpu-operator"
    ]
    assert step.chart.values["gdrcopy"] == {"enabled": True}
    assert step.chart.values["driver"] == {"rdma": {"enabled": True, "useHostMofed": False}}
    assert step.chart.values["dcgm"] == {"enabled": True}


def test_values_of_a_chart_that_the_stack_does_not_install_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_with(monkeypatch, spiderpool={"grafanaDashboard": {"install": True}})
    (problem,) = find_refusals(STACK, plan)
    assert problem.message == (
        f"stack {NAME} installs no chart of 'spiderpool'; it installs nvidia-network-operator, nvidia-gpu-operator"
    )
    assert problem.path == ("spec", "kubernetes", "values", "spiderpool")


def test_lists_and_scalars_are_replaced_and_null_is_kept_for_helm_to_delete() -> None:
    ours: dict[str, Any] = {"a": {"b": [1], "c": 2}, "d": 3}
    assert merge_values(ours, {"a": {"b": [4], "e": None}, "d": {"f": 5}}) == {
        "a": {"b": [4], "c": 2, "e": None},
        "d": {"f": 5},
    }
    assert ours == {"a": {"b": [1], "c": 2}, "d": 3}
