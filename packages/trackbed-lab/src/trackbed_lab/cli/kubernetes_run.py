"""`trackbed lab kubernetes run`: from servers in factory state to pods with RDMA rails, on a real cluster."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import output_option
from trackbed_lab.cli.kubernetes import folder_option
from trackbed_lab.cli.session import fabric_option, teller
from trackbed_lab.cli.vm import chosen, say, unknown
from trackbed_lab.cli.vm_run import end, fitting, planned

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
def run(source: str | None, folder: Path, memory: int, keep: bool, form: str) -> None:
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
    fabric, plan = planned(source)
    began = time.monotonic()
    here = started(folder, fitting(plan, memory), joined=False)
    try:
        phases = _phases(begun(here, (fabric, plan), time.monotonic() - began, teller(form)), here)
    finally:
        if not keep:
            cluster.stop_cluster(folder)
    end(phases, time.monotonic() - began, form)


def started(folder: Path, shape: LabShape, *, joined: bool) -> Cluster:
    """A cluster whose servers are up, as nodes or not; what goes wrong ends the command with status 3.

    So it does where another cluster runs, which must stay.
    """
    from trackbed_lab.kubernetes import build, cluster, control_plane, images
    from trackbed_lab.vm import lab, parts

    told = (build.BuildError, control_plane.ControlPlaneError, images.ImageError, lab.VmLabError)
    try:
        found = parts.fetch_parts(say)
        return cluster.start_cluster(folder, found, chosen(found, shape), say, join=joined)
    except (*told, parts.PartsError, OSError) as error:
        unknown(str(error))


def begun(here: Cluster, wanted: tuple[bytes, Plan], seconds: float, tell: ReportPhase) -> VmRun:
    """A run on servers that took so long to come up."""
    from trackbed_lab.kubernetes import build
    from trackbed_lab.run_result import Phase
    from trackbed_lab.vm import run as servers

    fabric, plan = wanted
    shape = here.servers.shape
    words = f"{shape.servers} servers of {shape.rails} igb NICs, Linux {here.servers.kernel}; Kubernetes "
    booted = Phase("servers", seconds, words + build.read_kubernetes_version())
    return servers.begin_run(here.servers, plan, fabric, booted, tell)


def _phases(course: VmRun, here: Cluster) -> list[Phase]:
    from trackbed_lab.kubernetes import cluster, run
    from trackbed_lab.kubernetes.blocking import connect

    with connect(str(here.kubeconfig)) as client:
        run.run_phases(course, client, cluster.TOOLS)
    return course.phases
