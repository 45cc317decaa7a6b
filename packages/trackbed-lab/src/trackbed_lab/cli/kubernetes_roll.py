"""`trackbed lab kubernetes roll`: from nodes in factory state to a job with rails, by a chart and one Fabric."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import exit_unknown, output_option
from trackbed_lab.cli.kubernetes import folder_option, memory_option
from trackbed_lab.cli.kubernetes_servers import begin_run, start_cluster
from trackbed_lab.cli.session import build_phase_printer, server_fabric_option
from trackbed_lab.cli.vm import report_progress
from trackbed_lab.cli.vm_run import derive_shape, exit_with_phases, load_plan
from trackbed_lab.processes import defer_signals

if TYPE_CHECKING:
    from trackbed_lab.kubernetes.chart_tools import Tools
    from trackbed_lab.kubernetes.cluster import Cluster


@click.command("roll")
@server_fabric_option
@folder_option
@click.option(
    "--chart",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="Trackbed's Helm chart.",
)
@memory_option
@click.option("--keep", is_flag=True, help="Leave the cluster up, with all that was installed.")
@output_option("text", "json")
def roll(source: str | None, folder: Path, chart: Path, memory: int, keep: bool, output_format: str) -> None:
    """Take a cluster of servers in factory state to a job with rails: helm install, kubectl apply, one annotation.

    The controller drains, changes and reboots the nodes by itself. The last node's root has no Python. The first
    run builds Kubernetes, which takes some minutes. Exits with 0 when all went as planned, with 1 when not, with 3 when
    this machine cannot run a cluster.

    \b
    Examples:
      trackbed lab kubernetes roll --chart charts/trackbed
      trackbed lab kubernetes roll --chart charts/trackbed --keep
    """
    from tempfile import TemporaryDirectory

    from trackbed_lab.kubernetes import chart_run, cluster
    from trackbed_lab.kubernetes.blocking import connect

    folder = folder.absolute()
    fabric, plan = load_plan(source)
    start = time.monotonic()
    shape = derive_shape(plan, memory)
    lab_cluster = start_cluster(folder, shape, join=True, detached=keep, bare=shape.list_servers()[-1:])
    try:
        vm_run = begin_run(lab_cluster, (fabric, plan), time.monotonic() - start, build_phase_printer(output_format))
        with connect(str(lab_cluster.kubeconfig)) as client, TemporaryDirectory(prefix="trackbed-") as name:
            chart_run.run_phases(
                vm_run, client, fabric, _build_tools(lab_cluster, chart.absolute(), Path(name)), keep=keep
            )
    finally:
        if not keep:
            with defer_signals():
                cluster.stop_cluster(folder)
    exit_with_phases(vm_run.phases, time.monotonic() - start, output_format)


def _build_tools(lab_cluster: Cluster, chart: Path, folder: Path) -> Tools:
    from trackbed_lab.kubernetes import build
    from trackbed_lab.kubernetes.chart_tools import Tools
    from trackbed_lab.kubernetes.programs import HELM, NODE

    try:
        helm, node = (build.build_programs(group, report_progress) for group in (HELM, NODE))
    except build.BuildError as error:
        exit_unknown(str(error))
    return Tools(helm / "helm", node / "kubectl", chart, lab_cluster.kubeconfig, folder)
