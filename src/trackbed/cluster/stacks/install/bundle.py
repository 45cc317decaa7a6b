"""All files of a stack, in the order of their use; objects are written as they are made, whatever their number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from trackbed.cluster.stacks.install.host import host_files
from trackbed.cluster.stacks.install.playbook import playbook
from trackbed.cluster.stacks.install.readme import readme
from trackbed.cluster.stacks.install.script import script
from trackbed.cluster.stacks.install.steps import Apply, Install, Step, steps
from trackbed.cluster.stacks.stack import Stack
from trackbed.fabric.plan.plan import Plan
from trackbed.fabric.yaml_text import render_documents

File = tuple[str, Iterable[str]]
"""Name below the bundle's folder, and text in pieces that may be read once."""

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
"""Component -> what the head of its values says."""


def bundle(stack: Stack, plan: Plan) -> Iterator[File]:
    """Name and text of each file; a file's text must be read before the next file is asked for."""
    found = tuple(_not_empty(steps(stack, plan)))
    yield "README.txt", readme(stack, plan, found)
    yield from _files(found)
    if found:
        yield "install.sh", script(stack.name, plan, found)
        yield "playbook.yaml", playbook(stack.name, plan, found)
    if found and not stack.platform_operators:
        yield from host_files().items()
    for name, text in stack.files(plan).items():
        yield name, (text,)


def _not_empty(found: Iterable[Step]) -> Iterator[Step]:
    """The steps; a stage without objects keeps what it waits for but gets no file: kubectl refuses empty ones."""
    for step in found:
        if not isinstance(step, Apply):
            yield step
            continue
        objects = iter(step.objects)
        first = next(objects, None)
        if first is not None:
            yield Apply(step.file, step.what, chain((first,), objects), step.until)
        elif step.until:
            yield Apply("", step.what, (), step.until)


def _files(found: Iterable[Step]) -> Iterator[File]:
    for step in found:
        if isinstance(step, Install):
            yield step.values, _render_values(step)
        elif isinstance(step, Apply) and step.file:
            yield step.file, render_documents(step.objects)


def _render_values(step: Install) -> Iterator[str]:
    """Yield the pieces of the Helm values of one chart, headed by what the chart is and what the site must say."""
    version = f" {step.version}" if step.version else ""
    where = f"of {step.source.repository}" if step.source.repository else "(published nowhere as a chart)"
    yield f"# Helm values of {step.chart.component}: chart {step.source.name}{version} {where}\n"
    for line in _NOTES.get(step.chart.component, ()):
        yield f"# {line}\n"
    yield from render_documents((step.chart.values,)) if step.chart.values else ("{}\n",)
