"""`trackbed lab kubernetes roll`: from nodes in factory state to a job with rails, by a chart and one Fabric."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import output_option
from trackbed_lab.cli.kubernetes import folder_option
from trackbed_lab.cli.kubernetes_run import begun, started
from trackbed_lab.cli.session import fabric_option, teller
from trackbed_lab.cli.vm import say, unknown
from trackbed_lab.cli.vm_run import end, fitting, planned

if TYPE_CHECKING:
    from trackbed_lab.kubernetes.chart_run import Tools
    from trackbed_lab.kubernetes.cluster import Cluster


@click.command("roll")
@fabric_option
@folder_option
@click.option(
    "--chart",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    required=True,
    metavar="DIR",
    help="Trackbed's Helm chart.",
)
@click.option("--memory", default=3072, show_default=True, metavar="MIB", help="Memory of each node.")
@click.option("--keep", is_flag=True, help="Leave the cluster up, with all that was installed.")
@output_option("text", "json")
def roll(source: str | None, folder: Path, chart: Path, memory: int, keep: bool, form: str) -> None:
    """Take a cluster of servers in factory state to a job with rails: helm install, kubectl apply, one annotation.

    The controller drains, changes and reboots the nodes by itself. Without -f: two servers with 8 rails. The first time
    Kubernetes is built, which takes some minutes. Exits with 0 when all went as planned, with 1 when not, with 3 when
    there can be no cluster here.

    \b
    Examples:
      trackbed lab kubernetes roll --chart charts/trackbed
      trackbed lab kubernetes roll --chart charts/trackbed --keep
    """
    from tempfile import TemporaryDirectory

    from trackbed_lab.kubernetes import chart_run, cluster
    from trackbed_lab.kubernetes.blocking import connect

    folder = folder.absolute()
    fabric, plan = planned(source)
    began = time.monotonic()
    here = started(folder, fitting(plan, memory), joined=True)
    try:
        course = begun(here, (fabric, plan), time.monotonic() - began, teller(form))
        with connect(str(here.kubeconfig)) as client, TemporaryDirectory(prefix="trackbed-") as own:
            chart_run.run_phases(course, client, fabric, _tools(here, chart.absolute(), Path(own)), keep=keep)
    finally:
        if not keep:
            cluster.stop_cluster(folder)
    end(course.phases, time.monotonic() - began, form)


def _tools(here: Cluster, chart: Path, folder: Path) -> Tools:
    from trackbed_lab.kubernetes import build
    from trackbed_lab.kubernetes.chart_run import Tools
    from trackbed_lab.kubernetes.programs import HELM, NODE

    try:
        helm, node = (build.build_programs(one, say) for one in (HELM, NODE))
    except build.BuildError as error:
        unknown(str(error))
    return Tools(helm / "helm", node / "kubectl", chart, here.kubeconfig, folder)
