"""`trackbed lab kubernetes run`: from servers in factory state to pods with RDMA rails, on a real cluster."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.lab.kubernetes import folder_option
from trackbed.cli.lab.session import fabric_option, teller
from trackbed.cli.lab.vm import chosen, say, unknown
from trackbed.cli.lab.vm_run import planned
from trackbed.cli.options import emit_json, output_option, refuse

if TYPE_CHECKING:
    from trackbed.lab.vm.machine import Shape
    from trackbed.plan.plan import Plan
    from trackbed.verify.run_result import Phase


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
    from trackbed.lab.kubernetes import cluster
    from trackbed.lab.vm import run as course
    from trackbed.lab.vm.machine import Shape

    folder = folder.absolute()
    fabric, plan = planned(source)
    try:
        shape = course.shape_of(plan, Shape(memory=memory, accelerator="auto"))
    except course.UnfitError as error:
        refuse(str(error))
    try:
        began = time.monotonic()
        phases = _phases(folder, shape, (fabric, plan), form)
    finally:
        if not keep:
            cluster.down(folder)
    ok = all(phase.ok for phase in phases)
    if form == "json":
        emit_json(phases)
    else:
        outcome = "as planned" if ok else "NOT as planned"
        click.secho(f"{outcome}, {time.monotonic() - began:.0f} s", bold=True, fg="green" if ok else "red")
    raise SystemExit(0 if ok else 1)


def _phases(folder: Path, shape: Shape, wanted: tuple[bytes, Plan], form: str) -> list[Phase]:
    from trackbed.kube.client import connect
    from trackbed.lab.kubernetes import build, cluster, control_plane, images
    from trackbed.lab.kubernetes import run as course
    from trackbed.lab.vm import lab, parts
    from trackbed.lab.vm import run as servers
    from trackbed.verify.run_result import Phase

    fabric, plan = wanted
    began = time.monotonic()
    told = (build.BuildError, control_plane.ControlPlaneError, images.ImageError, lab.LabError)
    try:
        found = parts.parts(say)
        here = cluster.started(folder, found, chosen(found, shape), say, joined=False)
    except (*told, parts.PartsError, OSError) as error:
        unknown(str(error))
    words = f"{shape.servers} servers of {shape.rails} igb NICs, Linux {here.servers.kernel}; Kubernetes "
    booted = Phase("servers", time.monotonic() - began, words + build.kubernetes_version())
    begun = servers.begun(here.servers, plan, fabric, booted, teller(form))
    with connect(str(here.kubeconfig)) as client:
        course.run(begun, client, cluster.TOOLS)
    return begun.phases
