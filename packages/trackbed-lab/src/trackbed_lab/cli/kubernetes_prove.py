"""`trackbed lab kubernetes prove`: faults of emulated servers and their leaves, named by a proof through pods."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import output_option
from trackbed_lab.cli.kubernetes import folder_option, memory_option
from trackbed_lab.cli.kubernetes_run import keep_option, programs_option, stack_option
from trackbed_lab.cli.kubernetes_servers import begin_run, start_cluster
from trackbed_lab.cli.proof import screen_in_pods
from trackbed_lab.cli.session import build_phase_printer
from trackbed_lab.cli.vm_run import derive_shape, exit_with_phases, load_plan
from trackbed_lab.processes import defer_signals

if TYPE_CHECKING:
    from collections.abc import Callable

    from trackbed.fabric.plan.plan import Plan
    from trackbed_lab.kubernetes.cluster import Cluster, ClusterSpec
    from trackbed_lab.kubernetes.run import ClusterRun
    from trackbed_lab.kubernetes.stacks.lab_stack import LabStack
    from trackbed_lab.run_result import PhaseOutcome

    ApplyStack = Callable[[ClusterRun], PhaseOutcome]


@click.command("prove")
@folder_option
@memory_option
@keep_option
@stack_option
@programs_option
@output_option("text", "json")
def prove(folder: Path, memory: int, keep: bool, stack: str, programs: Path | None, output_format: str) -> None:
    """Let a pod on each of four nodes measure a rail, sound first, then with one fault after the other.

    The faults: a slow port, a lossy port, a cable in the wrong leaf, a leaf MTU of 1500, a slow uplink, a missing GID.
    The whole ladder runs, RDMA by soft-RoCE. Exits with 0 when each fault is named and nothing else, with 1 when not,
    with 3 when this machine cannot run the cluster. It takes some 30 minutes on two cores.

    \b
    Examples:
      trackbed lab kubernetes prove
      trackbed lab kubernetes prove --stack network-operator-sriov \\
          --programs ./programs
    """
    from trackbed_lab.cli.kubernetes_stack import find_stack
    from trackbed_lab.kubernetes import cluster
    from trackbed_lab.kubernetes.blocking import connect
    from trackbed_lab.kubernetes.proof import run_phases
    from trackbed_lab.kubernetes.run import ClusterRun

    folder, start = folder.absolute(), time.monotonic()
    lab_stack = None if stack == "native" else find_stack(stack)
    with ExitStack() as cleanup, TemporaryDirectory(prefix="trackbed-") as name:
        fabric, plan = _load_fabric(stack, Path(name))
        add, prepare = _prepare_stack(lab_stack, programs, plan, Path(name))
        lab_cluster = start_cluster(folder, derive_shape(plan, memory), join=False, detached=keep, add=add)
        if not keep:
            cleanup.callback(_stop, folder)
        with connect(str(lab_cluster.kubeconfig)) as client:
            report = build_phase_printer(output_format)
            vm_run = begin_run(lab_cluster, (fabric, plan), time.monotonic() - start, report)
            run = ClusterRun(vm_run, client, plan, cluster.TOOLS_IMAGE, [], stack)
            run_phases(run, prepare(lab_cluster), partial(screen_in_pods, stack, str(lab_cluster.kubeconfig)))
    exit_with_phases(vm_run.phases, time.monotonic() - start, output_format)


def _stop(folder: Path) -> None:
    from trackbed_lab.kubernetes import cluster

    with defer_signals():
        cluster.stop_cluster(folder)


def _load_fabric(stack: str, folder: Path) -> tuple[bytes, Plan]:
    """Write the Fabric of this stack into a folder; return its bytes and its plan."""
    from importlib.resources import files

    text = files("trackbed_lab.kubernetes").joinpath("proof.yaml").read_text()
    path = folder / "fabric.yaml"
    path.write_text(text.replace("stack: native", f"stack: {stack}"))
    return load_plan(str(path))


def _prepare_stack(
    stack: LabStack | None, programs_folder: Path | None, plan: Plan, folder: Path
) -> tuple[Callable[[ClusterSpec], ClusterSpec], Callable[[Cluster], ApplyStack]]:
    """Return what adds a stack's images to nodes, and what returns the phase that installs it (None: native)."""
    from trackbed_lab.cli.kubernetes_stack import add_stack, build_tools, find_programs, locate_charts
    from trackbed_lab.kubernetes.proof_image import build_proof_image
    from trackbed_lab.kubernetes.run import apply_native
    from trackbed_lab.kubernetes.stacks.run import apply_stack

    def add_image(spec: ClusterSpec) -> ClusterSpec:
        return replace(spec, extra_images=(*spec.extra_images, build_proof_image(spec.parts.tools)))

    if stack is None:
        return add_image, lambda _: apply_native
    programs = find_programs(stack, programs_folder)
    charts = locate_charts(stack, programs)
    return (
        lambda spec: add_image(add_stack(spec, stack, plan, programs)),
        lambda lab_cluster: partial(apply_stack, stack, build_tools(charts, lab_cluster, folder)),
    )
