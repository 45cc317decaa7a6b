"""`trackbed lab kubernetes exec` and `logs`: containers of a cluster of emulated servers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import exit_unknown, refuse
from trackbed_lab.cli.kubernetes import folder_option
from trackbed_lab.cli.vm import load_lab, write_output

if TYPE_CHECKING:
    from collections.abc import Callable

    from trackbed_lab.kubernetes.pods import Container

_SECONDS = 600.0
_container_option = click.option("-c", "--container", metavar="NAME", help="Which container.  [default: the first]")
_namespace_option = click.option("-n", "--namespace", default="default", show_default=True, help="Where the pod is.")


@click.command("exec", context_settings={"ignore_unknown_options": True})
@folder_option
@_namespace_option
@_container_option
@click.argument("pod")
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(folder: Path, namespace: str, container: str | None, pod: str, program: tuple[str, ...]) -> None:
    """Run a program in a pod, as the pod's user; the output and the exit status are passed on.

    \b
    Example:
      trackbed lab kubernetes exec worker-0 -- ibv_devices
    """
    _run_on_node(folder, (namespace, pod, container), lambda container: container.build_exec_command(program))


@click.command("logs")
@folder_option
@_namespace_option
@_container_option
@click.argument("pod")
def logs(folder: Path, namespace: str, container: str | None, pod: str) -> None:
    """Show the log of a pod's container.

    \b
    Example:
      trackbed lab kubernetes logs worker-0
    """
    _run_on_node(folder, (namespace, pod, container), lambda container: container.build_log_command())


def _run_on_node(folder: Path, pod: tuple[str, str, str | None], build_argv: Callable[[Container], list[str]]) -> None:
    """Run a command for a container on its node, and exit with its status; `pod` is namespace, pod and container."""
    from trackbed_lab.kubernetes import cluster
    from trackbed_lab.vm import channel, lab

    vm_lab = load_lab(cluster.locate_servers(folder))
    container = _find_container(folder, *pod)
    try:
        server = vm_lab.find_server(container.node)
        raise SystemExit(channel.stream_command(server.channel, build_argv(container), write_output, _SECONDS))
    except lab.VmLabError as error:
        refuse(str(error))
    except channel.ChannelError as error:
        exit_unknown(lab.describe_failure(vm_lab, container.node, str(error)))


def _find_container(folder: Path, namespace: str, pod: str, container: str | None) -> Container:
    from trackbed.cluster.api.errors import KubeError
    from trackbed_lab.kubernetes.blocking import connect
    from trackbed_lab.kubernetes.pods import PodError, find_container

    try:
        with connect(str(folder / "kubeconfig")) as client:
            return find_container(client, namespace, pod, container)
    except PodError as error:
        refuse(str(error))
    except KubeError as error:
        exit_unknown(str(error))
