"""`trackbed lab kubernetes run --stack NAME`: a stack of another project, by its own programs and charts."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NoReturn

from trackbed.cli.options import exit_unknown, refuse
from trackbed_lab.cli.kubernetes_servers import begin_run, start_cluster
from trackbed_lab.cli.session import build_phase_printer
from trackbed_lab.cli.vm import report_progress
from trackbed_lab.cli.vm_run import derive_shape, exit_with_phases, load_plan
from trackbed_lab.processes import defer_signals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trackbed.fabric.plan.plan import Plan
    from trackbed_lab.kubernetes.cluster import Cluster, ClusterSpec
    from trackbed_lab.kubernetes.stacks.lab_stack import LabStack, StackTools
    from trackbed_lab.kubernetes.stacks.programs_folder import ProgramsFolder


def run_stack(
    name: str, folder: Path | None, source: str | None, lab_folder: Path, *, memory: int, keep: bool, output_format: str
) -> NoReturn:
    """Run all phases of a stack on a new cluster in `lab_folder`, and exit; `folder` holds programs and charts."""
    from trackbed_lab.kubernetes import cluster
    from trackbed_lab.kubernetes.blocking import connect
    from trackbed_lab.kubernetes.stacks.run import run_phases

    stack = find_stack(name)
    fabric, plan = load_plan(source, "trackbed_lab.kubernetes.stacks", stack.fabric)
    programs = find_programs(stack, folder)
    charts = locate_charts(stack, programs)
    start = time.monotonic()
    lab_cluster = start_cluster(
        lab_folder,
        derive_shape(plan, memory),
        join=False,
        detached=keep,
        add=lambda spec: add_stack(spec, stack, plan, programs),
    )
    try:
        with connect(str(lab_cluster.kubeconfig)) as client, TemporaryDirectory(prefix="trackbed-") as run_folder:
            tools = build_tools(charts, lab_cluster, Path(run_folder))
            (tools.folder / "fabric.yaml").write_bytes(fabric)
            report = build_phase_printer(output_format)
            vm_run = begin_run(lab_cluster, (fabric, plan), time.monotonic() - start, report)
            run_phases(stack, vm_run, client, cluster.TOOLS_IMAGE, tools)
    finally:
        if not keep:
            with defer_signals():
                cluster.stop_cluster(lab_folder)
    exit_with_phases(vm_run.phases, time.monotonic() - start, output_format)


def find_stack(name: str) -> LabStack:
    """Return a stack that the lab can run besides `native`; exit with status 2 for another."""
    from trackbed_lab.kubernetes.stacks import STACKS

    if name not in STACKS:
        refuse(f"--stack {name}: the lab can run native, {', '.join(STACKS)}")
    return STACKS[name]


def find_programs(stack: LabStack, folder: Path | None) -> ProgramsFolder:
    """Return the stack's programs. Exit with status 2 without a folder, with 3 if those of Go cannot be built."""
    from trackbed_lab.kubernetes import build
    from trackbed_lab.kubernetes.stacks.programs_folder import ProgramsFolder

    if folder is None:
        refuse(f"--stack {stack.name} needs --programs DIR: the stack's programs in DIR/bin, its charts in DIR/charts")
    try:
        return ProgramsFolder(folder.absolute(), (build.build_programs(stack.go_programs, report_progress),))
    except build.BuildError as error:
        exit_unknown(str(error))


def locate_charts(stack: LabStack, programs: ProgramsFolder) -> Mapping[str, Path]:
    """Return the folders of the stack's charts; exit with status 2 if one is missing."""
    from trackbed_lab.kubernetes.stacks.programs_folder import ProgramsError

    try:
        return {name: programs.locate_chart(release) for name, release in {**stack.charts, **stack.site_charts}.items()}
    except ProgramsError as error:
        refuse(f"--programs: {error}")


def add_stack(spec: ClusterSpec, stack: LabStack, plan: Plan, programs: ProgramsFolder) -> ClusterSpec:
    """Add the stack's images and files to the nodes."""
    from trackbed_lab.kubernetes.stacks.lab_stack import ImageParts

    images = stack.images(ImageParts(plan, programs, spec.parts.tools))
    return replace(spec, extra_images=images, extra_files=stack.node_files)


def build_tools(charts: Mapping[str, Path], lab_cluster: Cluster, folder: Path) -> StackTools:
    """Return what a user installs a stack with; `folder` gets what is written for it."""
    from trackbed_lab.kubernetes import build
    from trackbed_lab.kubernetes.programs import HELM, NODE
    from trackbed_lab.kubernetes.stacks.lab_stack import StackTools

    try:
        helm, node = (build.build_programs(group, report_progress) for group in (HELM, NODE))
    except build.BuildError as error:
        exit_unknown(str(error))
    return StackTools(helm / "helm", node / "kubectl", charts, lab_cluster.kubeconfig, folder)
