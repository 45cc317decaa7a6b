"""`trackbed diff`: how a host differs from the plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trackbed.cli.machine import machine_options, show
from trackbed.cli.options import fabric_option, node_of, node_option, output_option, read_fabric, refuse

if TYPE_CHECKING:
    from pathlib import Path


@click.command("diff")
@fabric_option
@node_option
@machine_options
@output_option("table", "json")
def command(fabric_file: str, node_name: str | None, root: Path, netns: Path | None, form: str) -> None:
    """Show how this host differs from the plan; nothing is changed.

    Exits with 0 when it does not differ, with 1 when it does.

    \b
    Examples:
      trackbed diff -f fabric.yaml
      trackbed diff -f fabric.yaml --node gpu-0 --netns /run/netns/gpu-0 -o json
    """
    from trackbed.chain import settings
    from trackbed.hosts.compare import compare
    from trackbed.hosts.machine import Machine
    from trackbed.netlink.codec import NetlinkError

    _, planned = read_fabric(fabric_file)
    node = node_of(planned, node_name)
    try:
        found = compare(Machine(root, netns), settings(node))
    except (OSError, NetlinkError) as error:
        refuse(f"cannot read the state of this machine: {error}")
    show(found, form, node.name)
    raise SystemExit(1 if found.changes else 0)
