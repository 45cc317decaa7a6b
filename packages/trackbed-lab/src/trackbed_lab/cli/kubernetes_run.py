"""`trackbed lab kubernetes run`: from servers in factory state to pods with RDMA rails, on a real cluster."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import output_option
from trackbed_lab.cli.kubernetes import folder_option
from trackbed_lab.cli.session import build_reporter, fabric_option
from trackbed_lab.cli.vm import choose_accelerator, exit_unknown, report_progress
from trackbed_lab.cli.vm_run import derive_shape, exit_with_phases, load_plan

if TYPE_CHECKING:
    from trackbed.fabric.plan.plan import Plan
    from trackbed_lab.kubernetes.cluster import Cluster
    from trackbed_lab.run_result import Phase
    from trackbed_lab.vm.machine import LabShape
    from trackbed_lab.vm.run import ReportPhase, VmRun


@click.command("run")
@fabric_option
@folder_option
@click.option("--memory", default=3072, show_default=True, metavar="MIB", help="Memory of each node.")
@click.option("--keep", is_flag=True, help="Leave the cluster up: trackbed lab kubernetes exec, logs, down.")
@output_option("text", "json")
def run(source: str | None, folder: Path, memory: int, keep: bool, output_format: str) -> None:
    """Take servers from factory state to a job whose pods ask for all rails: apply, reboot, doctor, stack, traffic.

    Without -f: two servers with 8 rails. The first time Kubernetes is built, which takes some minutes. Exits with 0
    when all went as planned, with 1 when not, with 3 when there can be no cluster here.

    \b
    Examples:
      trackbed lab kubernetes run
      trackbed lab kubernetes run --keep && trackbed lab kubernetes exec rails-0 -- ibv_devices
    """
    from trackbed_lab.kubernetes import cluster

    folder = folder.absolute()
    fabric, plan = load_plan(source)
    start = time.monotonic()
    lab_cluster = start_cluster(folder, derive_shape(plan, memory), join=False)
    try:
        phases = _run_phases(
            begin_run(lab_cluster, (fabric, plan), time.monotonic() - start, build_reporter(output_format)), lab_cluster
        )
    finally:
        if not keep:
            cluster.stop_cluster(folder)
    exit_with_phases(phases, time.monotonic() - start, output_format)


def start_cluster(folder: Path, shape: LabShape, *, join: bool) -> Cluster:
    """Start a cluster, with its servers as nodes if `join`; exit with status 3 if it does not come up.

    The exit leaves another cluster alone that runs in the folder.
    """
    from trackbed_lab.kubernetes import build, cluster, control_plane, images
    from trackbed_lab.vm import lab, parts

    errors = (build.BuildError, control_plane.ControlPlaneError, images.ImageError, lab.VmLabError)
    try:
        fetched = parts.fetch_parts(report_progress)
        return cluster.start_cluster(folder, fetched, choose_accelerator(fetched, shape), report_progress, join=join)
    except (*errors, parts.PartsError, OSError) as error:
        exit_unknown(str(error))


def begin_run(lab_cluster: Cluster, fabric: tuple[bytes, Plan], seconds: float, report: ReportPhase) -> VmRun:
    """Begin a run on servers that took `seconds` to come up; `fabric` is a Fabric's bytes and its plan."""
    from trackbed_lab.kubernetes import build
    from trackbed_lab.run_result import Phase
    from trackbed_lab.vm import run as vm

    content, plan = fabric
    shape = lab_cluster.servers.shape
    summary = f"{shape.servers} servers of {shape.rails} igb NICs, Linux {lab_cluster.servers.kernel}; Kubernetes "
    boot = Phase("servers", seconds, summary + build.read_kubernetes_version())
    return vm.begin_run(lab_cluster.servers, plan, content, boot, report)


def _run_phases(vm_run: VmRun, lab_cluster: Cluster) -> list[Phase]:
    from trackbed_lab.kubernetes import cluster, run
    from trackbed_lab.kubernetes.blocking import connect

    with connect(str(lab_cluster.kubeconfig)) as client:
        run.run_phases(vm_run, client, cluster.TOOLS)
    return vm_run.phases
