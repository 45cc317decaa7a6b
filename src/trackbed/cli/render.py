"""`trackbed render`: configuration files of hosts, agents, clusters and switches."""

import click

from trackbed.cli import render_host, render_stack, render_switch
from trackbed.cli.groups import CommandGroup
from trackbed.cli.options import fabric_option, find_node, node_option, read_fabric


@click.group("render", cls=CommandGroup)
def command() -> None:
    """Write configuration for hosts, agents, clusters and switches.

    \b
    Examples:
      trackbed render host -f fabric.yaml --node gpu-0 --format netplan
      trackbed render stack native -f fabric.yaml --to ./cluster
      trackbed render switch --format sonic -f fabric.yaml --to ./leaves
    """


command.add_command(render_host.host)
command.add_command(render_stack.stack)
command.add_command(render_stack.rights)
command.add_command(render_switch.switch)


@command.command("node")
@fabric_option
@node_option
def node_plan(fabric_file: str, node_name: str | None) -> None:
    """Print one node's plan as its agent reads it.

    \b
    Example:
      trackbed render node -f fabric.yaml --node gpu-0 > /etc/trackbed/node.json
    """
    from trackbed.fabric.plan.node_document import encode_node

    _, plan = read_fabric(fabric_file)
    click.echo(encode_node(find_node(plan, node_name)).decode())
