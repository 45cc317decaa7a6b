"""The files of a stack's installation bundle; objects are rendered one at a time, so that any number fits in memory."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from trackbed.cluster.stacks.install.host import build_host_files
from trackbed.cluster.stacks.install.playbook import render_playbook
from trackbed.cluster.stacks.install.readme import render_readme
from trackbed.cluster.stacks.install.script import render_script
from trackbed.cluster.stacks.install.steps import ApplyFile, InstallChart, Step, build_steps
from trackbed.cluster.stacks.stack import Stack
from trackbed.fabric.plan.plan import Plan
from trackbed.fabric.yaml_text import render_documents

BundleFile = tuple[str, Iterable[str]]
"""Name of a file in the bundle, and the pieces of its text, which can be read only once."""

_VALUES_COMMENTS = {
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
"""Component -> lines of the comment at the top of its Helm values file."""


def render_bundle(stack: Stack, plan: Plan) -> Iterator[BundleFile]:
    """Yield the files of the bundle; the text of each must be read before the next file is requested."""
    steps = tuple(_drop_empty_stages(build_steps(stack, plan)))
    yield "README.txt", render_readme(stack, plan, steps)
    yield from _render_step_files(steps)
    if steps:
        yield "install.sh", render_script(stack, plan, steps)
        yield "playbook.yaml", render_playbook(stack.name, plan, steps)
    if steps and not stack.platform_operators:
        yield from build_host_files(plan).items()
    for name, text in stack.files(plan).items():
        yield name, (text,)


def _drop_empty_stages(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield the steps without empty files, which kubectl refuses; the waits of a stage without objects are kept."""
    for step in steps:
        if not isinstance(step, ApplyFile):
            yield step
            continue
        objects = iter(step.objects)
        first = next(objects, None)
        if first is not None:
            yield replace(step, objects=chain((first,), objects))
        elif step.waits:
            yield ApplyFile("", step.title, (), step.waits)


def _render_step_files(steps: Iterable[Step]) -> Iterator[BundleFile]:
    for step in steps:
        if isinstance(step, InstallChart):
            yield step.values_file, _render_helm_values(step)
        elif isinstance(step, ApplyFile) and step.file:
            yield step.file, render_documents(step.objects)


def _render_helm_values(step: InstallChart) -> Iterator[str]:
    """Yield the pieces of a Helm values file: a comment with the chart and notes on its settings, then the values."""
    version = f" {step.version}" if step.version else ""
    origin = f"of {step.source.repository}" if step.source.repository else "(published nowhere as a chart)"
    yield f"# Helm values of {step.chart.component}: chart {step.source.name}{version} {origin}\n"
    for line in _VALUES_COMMENTS.get(step.chart.component, ()):
        yield f"# {line}\n"
    yield from render_documents((step.chart.values,)) if step.chart.values else ("{}\n",)
