"""`trackbed lab kubernetes`: a real control plane on loopback, and emulated servers as its nodes."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.groups import CommandGroup
from trackbed.cli.old_forms import refuse_option
from trackbed.cli.options import exit_unknown, refuse
from trackbed_lab.cli.vm import choose_accelerator, report_progress

if TYPE_CHECKING:
    from trackbed.cluster.api.response import Object
    from trackbed_lab.processes import LabProcess


def _locate_folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "trackbed" / "kubernetes"


folder_option = click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=_locate_folder,
    help="Folder for kubeconfig, logs and data.  [default: ~/.local/state/trackbed/kubernetes]",
)
memory_option = click.option("--memory", default=3072, show_default=True, metavar="MIB", help="Memory of each node.")


@click.group("kubernetes", cls=CommandGroup)
def command() -> None:
    """Run a real Kubernetes, built once from source: the control plane on loopback, emulated servers as nodes.

    \b
    Examples:
      trackbed lab kubernetes up --crds ./crds && trackbed lint --cluster
      trackbed lab kubernetes up --node-count 2
    """


@command.command("up")
@folder_option
@click.option(
    "--crds",
    envvar="TRACKBED_CRDS",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Load every CustomResourceDefinition below DIR. Default: $TRACKBED_CRDS.",
)
@click.option(
    "--node-count",
    "nodes",
    default=0,
    show_default=True,
    metavar="N",
    help="Emulated servers with kubelet and containerd.",
)
@click.option("--rail-count", "rails", default=8, show_default=True, help="NICs of each node, 7 VFs each.")
@refuse_option("--nodes", instead="--node-count {value}")
@refuse_option("--rails", instead="--rail-count {value}")
@memory_option
def up(folder: Path, crds: Path | None, nodes: int, rails: int, memory: int) -> None:
    """Start Kubernetes, which runs until `down`. The first start builds its programs, which takes some minutes.

    \b
    Examples:
      trackbed lab kubernetes up --crds ./crds
      trackbed lab kubernetes up --node-count 2
    """
    from trackbed_lab.kubernetes import build, cluster
    from trackbed_lab.kubernetes.crds import CrdError, read_definitions

    folder = folder.absolute()
    try:
        definitions = read_definitions(crds) if crds else []
    except CrdError as error:
        refuse(f"--crds: {error}")
    kubeconfig = _start_cluster(folder, nodes, rails, memory) if nodes else _start_control_plane(folder)
    with ExitStack() as undo:  # stops the control plane if the CRDs cannot be loaded
        undo.callback(cluster.stop_cluster, folder)
        loaded = f", {_load_crds(kubeconfig, definitions)} CRDs loaded" if definitions else ""
        undo.pop_all()
    click.echo(f"Kubernetes {build.read_kubernetes_version()} is up{loaded}")
    click.echo(f"export KUBECONFIG={kubeconfig}\nnext: trackbed render stack NAME -f fabric.yaml | kubectl apply -f -")


def _start_control_plane(folder: Path) -> Path:
    from trackbed_lab.kubernetes import build, control_plane
    from trackbed_lab.kubernetes.programs import CONTROL_PLANE

    try:
        return control_plane.start_control_plane(folder, build.build_programs(CONTROL_PLANE, report_progress))
    except (build.BuildError, control_plane.ControlPlaneError) as error:
        exit_unknown(str(error))


def _start_cluster(folder: Path, nodes: int, rails: int, memory: int) -> Path:
    from trackbed_lab.kubernetes import build, cluster, control_plane, images
    from trackbed_lab.vm import lab, parts
    from trackbed_lab.vm.machine import LabShape, find_problems

    shape = LabShape(servers=nodes, rails=rails, memory=memory, accelerator="auto")
    problems = find_problems(shape)
    if problems:
        refuse(f"no such nodes can be had: {'; '.join(problems)}")
    errors = (
        build.BuildError,
        control_plane.ControlPlaneError,
        images.ImageError,
        cluster.ClusterError,
        lab.VmLabError,
    )
    try:
        fetched = parts.fetch_parts(report_progress)
        spec = cluster.ClusterSpec(fetched, choose_accelerator(fetched, shape))
        return cluster.start_ready_cluster(folder, spec, report_progress).kubeconfig
    except (*errors, parts.PartsError, OSError) as error:
        exit_unknown(str(error))


def _load_crds(kubeconfig: Path, definitions: list[Object]) -> int:
    from trackbed.cluster.api.errors import KubeError
    from trackbed_lab.kubernetes.blocking import connect
    from trackbed_lab.kubernetes.crds import install_crds

    try:
        with connect(str(kubeconfig)) as client:
            return install_crds(client, definitions)
    except KubeError as error:
        exit_unknown(f"the CRDs could not be loaded, so the control plane is stopped again: {error}")


@command.command("status")
@folder_option
def status(folder: Path) -> None:
    """Show the processes of the control plane. Exits with 0 if all run, 1 if some do not, 3 if there is none.

    \b
    Example:
      trackbed lab kubernetes status
    """
    from trackbed.cli.tables import print_table
    from trackbed_lab.kubernetes.control_plane import ControlPlaneError, load_processes

    try:
        processes = load_processes(folder)
    except ControlPlaneError as error:
        refuse(str(error))
    if not processes:
        exit_unknown(f"no control plane in {folder}; trackbed lab kubernetes up starts one")
    print_table(("process", "pid", "", "log"), [_build_row(process) for process in processes])
    raise SystemExit(0 if all(process.is_alive for process in processes) else 1)


def _build_row(process: LabProcess) -> tuple[str, str, str, str]:
    return process.name, str(process.pid), "runs" if process.is_alive else "ended", process.log


@command.command("down")
@folder_option
def down(folder: Path) -> None:
    """Stop control plane and nodes and delete their data; logs are kept. Running it again is safe.

    \b
    Example:
      trackbed lab kubernetes down
    """
    from trackbed_lab.kubernetes import cluster, control_plane
    from trackbed_lab.vm.lab import VmLabError

    try:
        count = cluster.stop_cluster(folder)
    except (control_plane.ControlPlaneError, VmLabError) as error:
        refuse(str(error))
    except OSError as error:
        refuse(f"cannot remove {error.filename}: {error.strerror}")
    click.echo(f"stopped {count} processes" if count else "nothing was running")
