"""`trackbed render`: what a host, its agent, a cluster and a switch are configured with, as files."""

from __future__ import annotations

from pathlib import Path

import click

from trackbed.cli import render_stack, render_switch
from trackbed.cli.options import fabric_option, folder_option, node_of, node_option, read_fabric, refuse

FORMATS = ("netplan", "networkd", "networkmanager")


@click.group("render")
def command() -> None:
    """Write configuration for hosts, agents, clusters and switches."""


command.add_command(render_stack.stack)
command.add_command(render_switch.switch)


@command.command("host")
@fabric_option
@node_option
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="netplan", show_default=True, help="What reads the files."
)
@folder_option
def host(fabric_file: str, node_name: str | None, form: str, folder: Path | None) -> None:
    """Write the network files of one host; `trackbed apply` writes the same.

    \b
    Examples:
      trackbed render host -f fabric.yaml --node gpu-0
      trackbed render host -f fabric.yaml --node gpu-0 --format networkd -o ./gpu-0
    """
    from trackbed.chain.render import FORMATS as RENDERERS

    _, planned = read_fabric(fabric_file)
    node = node_of(planned, node_name)
    files = next(render for name, render in RENDERERS.items() if name == form)(node)
    if folder is None:
        click.echo("\n".join(f"# --- {path}\n{content}" for path, content in files.items()), nl=False)
        return
    for path, content in files.items():
        _write(folder, path, content)
    click.echo(f"wrote {len(files)} files below {folder}")


@command.command("node")
@fabric_option
@node_option
def node_plan(fabric_file: str, node_name: str | None) -> None:
    """Print one node's plan as its agent reads it.

    \b
    Example:
      trackbed render node -f fabric.yaml --node gpu-0 > /etc/trackbed/node.json
    """
    from trackbed.plan.wire import write_node

    _, planned = read_fabric(fabric_file)
    click.echo(write_node(node_of(planned, node_name)).decode())


def _write(folder: Path, path: str, content: str) -> None:
    from trackbed.hosts.files import write
    from trackbed.hosts.machine import Machine

    try:
        folder.mkdir(parents=True, exist_ok=True)
        write(Machine(folder), path, content.encode())
    except OSError as error:
        refuse(f"cannot write {path} below {folder}: {error.strerror}")
