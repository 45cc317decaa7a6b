"""`trackbed lab kubernetes`: a real control plane on loopback."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from trackbed.cli.options import refuse

if TYPE_CHECKING:
    from trackbed.lab.kubernetes.processes import Process


def _folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "trackbed" / "kubernetes"


folder_option = click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=_folder,
    help="Folder for kubeconfig, logs and data.  [default: ~/.local/state/trackbed/kubernetes]",
)


@click.group("kubernetes")
def command() -> None:
    """Run etcd, API server, controller manager and scheduler on loopback: real ones, built once from source.

    \b
    Example:
      trackbed lab kubernetes up --crds ./crds && trackbed lint --cluster
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
def up(folder: Path, crds: Path | None) -> None:
    """Start the control plane; it runs until `down`. The first time it is built, which takes some minutes.

    \b
    Example:
      trackbed lab kubernetes up --crds ./crds
    """
    from trackbed.kube.errors import KubeError
    from trackbed.lab.kubernetes import build, control_plane

    folder = folder.absolute()
    try:
        programs = build.binaries(lambda line: click.echo(line, err=True))
        kubeconfig = control_plane.up(folder, programs)
        count = _load(kubeconfig, crds) if crds else 0
    except (build.BuildError, control_plane.ControlPlaneError) as error:
        _unknown(str(error))
    except (KubeError, OSError) as error:
        control_plane.down(folder)
        _unknown(f"the CRDs of {crds} could not be loaded: {error}")
    click.echo(f"Kubernetes {build.kubernetes_version()} is up{f', {count} CRDs loaded' if count else ''}")
    click.echo(f"export KUBECONFIG={kubeconfig}\nnext: trackbed render stack NAME -f fabric.yaml | kubectl apply -f -")


def _load(kubeconfig: Path, crds: Path) -> int:
    from trackbed.kube.client import connect
    from trackbed.lab.kubernetes.crds import load

    with connect(str(kubeconfig)) as client:
        return load(client, crds)


@command.command("status")
@folder_option
def status(folder: Path) -> None:
    """Show the processes of the control plane. Exit 0 all run, 1 some do not, 3 there is none.

    \b
    Example:
      trackbed lab kubernetes status
    """
    from trackbed.cli.tables import table
    from trackbed.lab.kubernetes.control_plane import processes

    found = processes(folder)
    if not found:
        _unknown(f"no control plane in {folder}; trackbed lab kubernetes up starts one")
    table(("process", "pid", "", "log"), [_row(one) for one in found])
    raise SystemExit(0 if all(one.lives for one in found) else 1)


def _row(one: Process) -> tuple[str, str, str, str]:
    return one.name, str(one.pid), "runs" if one.lives else "ended", one.log


@command.command("down")
@folder_option
def down(folder: Path) -> None:
    """Stop the control plane and throw its data away; logs stay. Doing it twice is fine.

    \b
    Example:
      trackbed lab kubernetes down
    """
    from trackbed.lab.kubernetes import control_plane

    try:
        count = control_plane.down(folder)
    except OSError as error:
        refuse(f"cannot remove {error.filename}: {error.strerror}")
    click.echo(f"stopped {count} processes" if count else "nothing was running")


def _unknown(message: str) -> NoReturn:
    click.echo(f"trackbed: {message}", err=True)
    raise SystemExit(3)
