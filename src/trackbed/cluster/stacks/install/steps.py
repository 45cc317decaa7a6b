"""The steps of an installation in order: charts, objects, labels, each with what must hold before the next."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from trackbed.cluster.stacks.install.site import SITE_SOURCES, site_charts
from trackbed.cluster.stacks.nfd import label, node_feature_rule
from trackbed.cluster.stacks.objects import Manifest, manifest
from trackbed.cluster.stacks.releases import ChartSource, catalogue, release
from trackbed.cluster.stacks.stack import Chart, Stack, Stage, Until, Wait
from trackbed.fabric.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Install:
    """A Helm release. Without version the site chooses; without source it must say where the chart lies."""

    chart: Chart
    source: ChartSource
    version: str | None

    @property
    def release(self) -> str:
        """Name of the Helm release."""
        return self.chart.component.removeprefix("nvidia-")

    @property
    def values(self) -> str:
        """Name of the file with its values."""
        return f"values-{self.chart.component}.yaml"

    @property
    def reference(self) -> str:
        """What to install: an OCI address, or the chart's name within its repository."""
        repository = self.source.repository or ""
        return f"{repository}/{self.source.name}" if repository.startswith("oci:") else self.source.name

    @property
    def until(self) -> tuple[Until, ...]:
        """What must hold before the next step."""
        return self.chart.until


@dataclass(frozen=True, slots=True)
class Apply:
    """Objects in a file of their own."""

    file: str
    what: str
    objects: Iterable[Manifest]
    until: tuple[Until, ...] = ()


@dataclass(frozen=True, slots=True)
class Labelled:
    """Wait until the fabric's nodes have its label; go on with those that have it by then."""

    label: str
    nodes: int
    seconds: int = 300
    until: tuple[Until, ...] = ()


Step = Install | Apply | Labelled


def steps(stack: Stack, plan: Plan) -> tuple[Step, ...]:
    """All steps; none for a stack that installs nothing on a cluster. Objects may be read once only."""
    charts, stages = stack.charts(plan), [_stage(stage) for stage in stack.stages(plan)]
    if not charts and not stages:
        return ()
    if stack.platform_operators:
        stages[0] = replace(stages[0], until=(*stages[0].until, _NFD_THERE))
        return _numbered(_namespace(plan), (stages[0], *_labels(stack, plan), *stages[1:]))
    installs = [_install(plan, chart) for chart in site_charts(plan, charts)]
    return _numbered(_namespace(plan), (*installs, *_labels(stack, plan), *stages))


_NFD_THERE = Wait("customresourcedefinition/nodefeaturerules.nfd.openshift.io", "condition=Established")


def _numbered(first: Sequence[Apply], rest: Sequence[Step]) -> tuple[Step, ...]:
    """Files of objects numbered by tens in their order; `first` is number 0."""
    numbers = count(10, 10)
    named = [replace(one, file=f"00-{one.file}") for one in first]
    return (
        *named,
        *(replace(step, file=f"{next(numbers)}-{step.file}") if isinstance(step, Apply) else step for step in rest),
    )


def _install(plan: Plan, chart: Chart) -> Install:
    component = catalogue().get(chart.component)
    if component is None:
        return Install(chart, SITE_SOURCES[chart.component], None)
    found = release(plan, chart.component)
    source = component.chart or ChartSource(chart.component)
    return Install(chart, source, found.chart or found.version.removeprefix("v"))


def _namespace(plan: Plan) -> tuple[Apply, ...]:
    """The pods' namespace: networks are made there before the first pod is."""
    name = plan.kubernetes.namespace
    if name == "default":
        return ()
    return (Apply("namespace.yaml", f"namespace {name}", (manifest("v1", "Namespace", name),)),)


def _labels(stack: Stack, plan: Plan) -> tuple[Step, ...]:
    if not stack.labels_nodes:
        return ()
    openshift = stack.platform_operators
    rules = node_feature_rule(plan, ports_stay=stack.ports_on_host, openshift=openshift)
    name, value = label(plan)
    return Apply("nfd.yaml", "labels of the nodes", rules), Labelled(f"{name}={value}", len(plan.nodes))


def _stage(stage: Stage) -> Apply:
    slug = re.sub(r"[^a-z0-9]+", "-", stage.name.lower()).strip("-")
    return Apply(f"{slug}.yaml", stage.name, stage.objects, stage.until)
