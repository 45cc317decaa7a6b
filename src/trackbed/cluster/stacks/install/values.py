"""Helm values of one chart, headed by what the chart is and what the site itself must say."""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.cluster.stacks.install.steps import Install
from trackbed.fabric.yaml_text import render_documents

_NOTES = {
    "calico": (
        "The version follows the cluster's Kubernetes: the site chooses it (CALICO_VERSION in install.sh).",
        "On a dual-stack cluster add nodeAddressAutodetectionV6 in the same way.",
    ),
    "cilium": (
        "The version follows the cluster's Kubernetes: the site chooses it (CILIUM_VERSION in install.sh).",
        "devices, the management interface, is a site's own too (CILIUM_DEVICES in install.sh): left to itself Cilium",
        "attaches to every port that has a route in the main table, rails among them.",
    ),
}


def values(step: Install) -> Iterator[str]:
    """The file's text in pieces."""
    version = f" {step.version}" if step.version else ""
    where = f"of {step.source.repository}" if step.source.repository else "(published nowhere as a chart)"
    yield f"# Helm values of {step.chart.component}: chart {step.source.name}{version} {where}\n"
    for line in _NOTES.get(step.chart.component, ()):
        yield f"# {line}\n"
    yield from render_documents((step.chart.values,)) if step.chart.values else ("{}\n",)
