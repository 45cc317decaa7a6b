"""The facts on values of charts: every value that a stack writes is among them, and no other."""

from __future__ import annotations

from tests.cluster.stacks.chart_fabrics import CASES, FABRICS, iter_paths, list_charts
from tools.pages.chart_values import list_paths, load_chart_values
from trackbed.cluster.stacks import MODULES, load_stack
from trackbed.cluster.stacks.stack import Stack

WITHOUT_CHARTS = {"openshift", "bare-metal", "kvm", "aws-efa", "azure", "gke", "oci"}
"""Stacks whose operators a platform installs, or that install none."""


def test_every_value_that_a_stack_writes_has_its_facts_and_no_fact_is_left_over() -> None:
    written = {
        (step.chart.component, path)
        for stack, feature in CASES
        for step in list_charts(stack, feature)
        for path, _ in iter_paths(step.chart.values, list_paths(step.chart.component))
    }
    assert written == {(fact.component, fact.value) for fact in load_chart_values()}


def test_every_stack_with_charts_has_its_fabrics() -> None:
    assert set(FABRICS) == set(MODULES) - WITHOUT_CHARTS
    stacks: list[Stack] = [load_stack(name) for name in sorted(WITHOUT_CHARTS)]
    assert [stack.name for stack in stacks if stack.has_objects and not stack.platform_operators] == []
