"""`trackbed lab kubernetes exec` and `logs`: into the containers of a cluster of emulated servers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import refuse
from trackbed_lab.cli.kubernetes import folder_option
from trackbed_lab.cli.vm import hear, here_or_end, unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from trackbed_lab.kubernetes.pods import Container

_SECONDS = 600.0
_container = click.option("-c", "--container", metavar="NAME", help="Which container.  [default: the first]")
_namespace = click.option("-n", "--namespace", default="default", show_default=True, help="Where the pod is.")


@click.command("exec", context_settings={"ignore_unknown_options": True})
@folder_option
@_namespace
@_container
@click.argument("pod")
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(folder: Path, namespace: str, container: str | None, pod: str, program: tuple[str, ...]) -> None:
    """Run a program in a pod, as its user; its output and its exit status are this command's.

    \b
    Example:
      trackbed lab kubernetes exec worker-0 -- ibv_devices
    """
    _in_pod(folder, (namespace, pod, container), lambda found: found.build_exec_command(program))


@click.command("logs")
@folder_option
@_namespace
@_container
@click.argument("pod")
def logs(folder: Path, namespace: str, container: str | None, pod: str) -> None:
    """Show what a pod has written.

    \b
    Example:
      trackbed lab kubernetes logs worker-0
    """
    _in_pod(folder, (namespace, pod, container), lambda found: found.build_log_command())


def _in_pod(folder: Path, which: tuple[str, str, str | None], argv: Callable[[Container], list[str]]) -> None:
    """Run what `argv` gives for the container, on its node; ends the command."""
    from trackbed_lab.kubernetes import cluster
    from trackbed_lab.vm import channel, lab

    here = here_or_end(cluster.locate_servers(folder))
    found = _found(folder, *which)
    try:
        server = here.find_server(found.node)
        raise SystemExit(channel.stream(server.channel, argv(found), hear, _SECONDS))
    except lab.VmLabError as error:
        refuse(str(error))
    except channel.ChannelError as error:
        unknown(lab.describe_failure(here, found.node, str(error)))


def _found(folder: Path, namespace: str, pod: str, container: str | None) -> Container:
    from trackbed.cluster.api.errors import KubeError
    from trackbed_lab.kubernetes.blocking import connect
    from trackbed_lab.kubernetes.pods import PodError, find_container

    try:
        with connect(str(folder / "kubeconfig")) as client:
            return find_container(client, namespace, pod, container)
    except PodError as error:
        refuse(str(error))
    except KubeError as error:
        unknown(str(error))
