"""Helm values of the Fabric's own (`kubernetes.values`), which win over those of the stack."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from trackbed.cluster.stacks.install.site import arrange_charts
from trackbed.cluster.stacks.stack import Chart, Stack
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan


def list_charts(stack: Stack, plan: Plan) -> tuple[Chart, ...]:
    """Return all charts of a cluster in order of installation, with the Fabric's own values. No refusal may exist."""
    charts = stack.charts(plan)
    if stack.platform_operators or not (charts or stack.has_objects):
        return ()
    return tuple(_add_values(plan, chart) for chart in arrange_charts(plan, charts))


def find_unused_values(stack: Stack, plan: Plan) -> Iterator[Problem]:
    """Yield a problem for each component whose values are in the Fabric although no chart of it is installed."""
    if not plan.kubernetes.values:
        return
    installed = [chart.component for chart in list_charts(stack, plan)]
    for component, _ in plan.kubernetes.values:
        if component not in installed:
            yield Problem(
                "unused-values",
                f"stack {stack.name} installs no chart of {component!r}; it installs {', '.join(installed) or 'none'}",
                ("spec", "kubernetes", "values", component),
            )


def merge_values(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return Helm values with `overrides` merged into them as helm does: mappings key by key, all else replaced."""
    merged = dict(values)
    for key, value in overrides.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = merge_values(merged[key], value) if both else value
    return merged


def _add_values(plan: Plan, chart: Chart) -> Chart:
    overrides = dict(plan.kubernetes.values).get(chart.component)
    return replace(chart, values=merge_values(chart.values, overrides)) if overrides else chart
