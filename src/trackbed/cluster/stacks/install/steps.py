"""The steps of an installation in order: charts, files of objects, node labels, and the waits after each step."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from trackbed.cluster.stacks.groups import FABRIC_LABEL
from trackbed.cluster.stacks.install.site import SITE_SOURCES
from trackbed.cluster.stacks.install.values import list_charts
from trackbed.cluster.stacks.nfd import build_node_feature_rules
from trackbed.cluster.stacks.objects import Manifest, build_manifest
from trackbed.cluster.stacks.releases import ChartSource, choose_release, load_catalogue
from trackbed.cluster.stacks.stack import AnyWait, Chart, ForeignObjects, Stack, Stage
from trackbed.fabric.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class InstallChart:
    """Install a Helm release. The site sets the version if it is None, the chart if its source has no repository."""

    chart: Chart
    source: ChartSource
    version: str | None

    @property
    def release_name(self) -> str:
        """Name of the Helm release."""
        return _get_release_name(self.chart.component)

    @property
    def values_file(self) -> str:
        """Name of the file with the Helm values."""
        return f"values-{self.chart.component}.yaml"

    @property
    def chart_reference(self) -> str:
        """The chart as helm's argument: an OCI address, or its name in its repository."""
        repository = self.source.repository or ""
        return f"{repository}/{self.source.name}" if repository.startswith("oci:") else self.source.name

    @property
    def waits(self) -> tuple[AnyWait, ...]:
        """Conditions to wait for before the next step."""
        return self.chart.waits


def list_release_names() -> list[str]:
    """Return the names of the Helm releases of all stacks and primary networks, sorted."""
    charts = [name for name, component in load_catalogue().items() if component.chart]
    return sorted(map(_get_release_name, (*charts, *SITE_SOURCES)))


def _get_release_name(component: str) -> str:
    return component.removeprefix("nvidia-")


@dataclass(frozen=True, slots=True)
class ApplyFile:
    """Apply the objects of a file; an empty file name stands for waits only."""

    file: str
    title: str
    objects: Iterable[Manifest]
    waits: tuple[AnyWait, ...] = ()
    force: bool = False
    """Whether to apply with `--force-conflicts`: another manager owns fields of the objects, with other values."""
    yields_to: ForeignObjects | None = None
    """Objects in whose presence the file is not applied. Its waits are kept."""


@dataclass(frozen=True, slots=True)
class WaitForLabel:
    """Wait until all nodes of the fabric have its label; after the timeout, continue with the nodes that have it."""

    label: str
    node_count: int
    timeout_seconds: int = 300
    waits: tuple[AnyWait, ...] = ()


Step = InstallChart | ApplyFile | WaitForLabel


def build_steps(stack: Stack, plan: Plan) -> tuple[Step, ...]:
    """Return all steps, empty for a stack that installs nothing. Objects of a step may be an iterator."""
    charts, early, stages = list_charts(stack, plan), list[ApplyFile](), list[ApplyFile]()
    for stage in stack.stages(plan):
        (early if stage.before_labels else stages).append(_build_apply_step(stage))
    if not charts and not stages:
        return ()
    installs = [_build_install_step(plan, chart) for chart in charts]
    return _number_files(_build_namespace_steps(plan), (*installs, *early, *_build_label_steps(stack, plan), *stages))


_MAX_WIDE_NUMBERS = 9
"""Largest number of files whose numbers, in steps of ten, have two digits."""


def _number_files(namespace_steps: Sequence[ApplyFile], steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return all steps with numbered file names: 00 for `namespace_steps`; 10, 20 and so on for `steps`.

    More than nine files have numbers 10, 15 and so on, so that the names sort in the order of the steps.
    """
    file_count = sum(isinstance(step, ApplyFile) for step in steps)
    numbers = count(10, 10 if file_count <= _MAX_WIDE_NUMBERS else 5)
    return (
        *(replace(step, file=f"00-{step.file}") for step in namespace_steps),
        *(
            replace(step, file=f"{next(numbers)}-{step.file}") if isinstance(step, ApplyFile) else step
            for step in steps
        ),
    )


def _build_install_step(plan: Plan, chart: Chart) -> InstallChart:
    component = load_catalogue().get(chart.component)
    if component is None:
        return InstallChart(chart, SITE_SOURCES[chart.component], None)
    release = choose_release(plan, chart.component)
    source = component.chart or ChartSource(chart.component)
    return InstallChart(chart, source, release.chart or release.version.removeprefix("v"))


def _build_namespace_steps(plan: Plan) -> tuple[ApplyFile, ...]:
    """Return the step that creates the namespace of pods and networks; empty for namespace default."""
    name = plan.kubernetes.namespace
    if name == "default":
        return ()
    return (ApplyFile("namespace.yaml", f"namespace {name}", (build_manifest("v1", "Namespace", name),)),)


def _build_label_steps(stack: Stack, plan: Plan) -> tuple[Step, ...]:
    """Return the steps that label the nodes by NFD and wait for the labels; empty for a stack without labels."""
    if not stack.labels_nodes:
        return ()
    rules = build_node_feature_rules(plan, ports_stay=stack.ports_on_host, openshift=stack.platform_operators)
    selector = f"{FABRIC_LABEL}={plan.common.fabric}"
    return ApplyFile("nfd.yaml", "labels of the nodes", rules), WaitForLabel(selector, len(plan.nodes))


def _build_apply_step(stage: Stage) -> ApplyFile:
    slug = re.sub(r"[^a-z0-9]+", "-", stage.name.lower()).strip("-")
    return ApplyFile(f"{slug}.yaml", stage.name, stage.objects, stage.waits, stage.force, stage.yields_to)
