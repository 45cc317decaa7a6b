"""`trackbed lab kubernetes run`: from servers in factory state to pods with RDMA rails, on a real cluster."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import output_option
from trackbed_lab.cli.kubernetes import folder_option, memory_option
from trackbed_lab.cli.kubernetes_servers import begin_run, start_cluster
from trackbed_lab.cli.session import build_phase_printer, server_fabric_option
from trackbed_lab.cli.vm_run import derive_shape, exit_with_phases, load_plan
from trackbed_lab.processes import defer_signals

if TYPE_CHECKING:
    from trackbed_lab.kubernetes.cluster import Cluster
    from trackbed_lab.run_result import Phase
    from trackbed_lab.vm.run import VmRun

keep_option = click.option(
    "--keep", is_flag=True, help="Leave the cluster up: trackbed lab kubernetes exec, logs, down."
)
stack_option = click.option(
    "--stack", default="native", show_default=True, metavar="NAME", help="Stack that gives pods their rails."
)
programs_option = click.option(
    "--programs",
    envvar="TRACKBED_PROGRAMS",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Programs and charts of other projects' stacks: DIR/bin, DIR/charts. Default: $TRACKBED_PROGRAMS.",
)
"""--programs DIR."""


@click.command("run")
@server_fabric_option
@folder_option
@memory_option
@keep_option
@stack_option
@programs_option
@output_option("text", "json")
def run(
    source: str | None, folder: Path, memory: int, keep: bool, stack: str, programs: Path | None, output_format: str
) -> None:
    """Take servers from factory state to a job whose pods ask for all rails: apply, reboot, doctor, stack, traffic.

    The first run builds Kubernetes, which takes some minutes. Stacks of other projects run by their own programs and
    charts. Exits with 0 when all went as planned, with 1 when not, with 3 when this machine cannot run a cluster.

    \b
    Examples:
      trackbed lab kubernetes run
      trackbed lab kubernetes run --keep \\
          && trackbed lab kubernetes exec rails-0 -- ibv_devices
      trackbed lab kubernetes run --stack network-operator-sriov \\
          --programs ./programs
    """
    from trackbed_lab.cli.kubernetes_stack import run_stack
    from trackbed_lab.kubernetes import cluster

    folder = folder.absolute()
    if stack != "native":
        run_stack(stack, programs, source, folder, memory=memory, keep=keep, output_format=output_format)
    fabric, plan = load_plan(source)
    start = time.monotonic()
    lab_cluster = start_cluster(folder, derive_shape(plan, memory), join=False, detached=keep)
    try:
        phases = _run_phases(
            begin_run(lab_cluster, (fabric, plan), time.monotonic() - start, build_phase_printer(output_format)),
            lab_cluster,
        )
    finally:
        if not keep:
            with defer_signals():
                cluster.stop_cluster(folder)
    exit_with_phases(phases, time.monotonic() - start, output_format)


def _run_phases(vm_run: VmRun, lab_cluster: Cluster) -> list[Phase]:
    from trackbed_lab.kubernetes import cluster, run
    from trackbed_lab.kubernetes.blocking import connect

    with connect(str(lab_cluster.kubeconfig)) as client:
        run.run_phases(vm_run, client, cluster.TOOLS_IMAGE)
    return vm_run.phases
