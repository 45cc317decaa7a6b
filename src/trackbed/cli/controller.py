"""`trackbed controller`: applies every Fabric of a cluster, node by node."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import METRICS, listen_option, prepare_daemon, refuse

if TYPE_CHECKING:
    from trackbed.cluster.daemon.http_server import ListenAddress


def _parse_stacks(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...]:
    """Parse comma-separated names of stacks. Exit with status 2 if a stack has no objects."""
    from trackbed.cli.render_stack import check_stack_name
    from trackbed.cluster.stacks import load_stack

    names = tuple(check_stack_name(name) for name in (text or "").split(",") if name)
    for name in names:
        if name == "native":
            refuse("--stacks native: its objects come with the control plane's chart; leave it out")
        if not load_stack(name).has_objects:
            refuse(f"--stacks {name}: it has no objects in a cluster; leave it out")
    return names


@click.command("controller")
@click.option(
    "--kubeconfig", metavar="FILE", help="How to reach the cluster. Default: as kubectl does, or its own pod's."
)
@click.option("--context", help="Context of the kubeconfig. Default: its current one.")
@click.option("--namespace", default="trackbed-system", show_default=True, help="Where Lease and locks are kept.")
@click.option(
    "--stacks",
    metavar="STACK,...",
    callback=_parse_stacks,
    help="Stacks that it applies where a Fabric names them in kubernetes.stack; see `trackbed render rights`.",
)
@click.option("--name", help="Name of this candidate. Default: the host's, which is a pod's own.")
@listen_option("--metrics", METRICS)
def command(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    stacks: tuple[str, ...],
    name: str | None,
    metrics: ListenAddress | None,
) -> None:
    """Apply every Fabric of a cluster, node by node, as its `rollout` allows; of two replicas, one leads.

    Reads Fabrics, Nodes and RailNodes; taints, cordons and drains nodes; the agent of each node prepares it. Ends on
    SIGTERM, and releases its Lease for the other replica.

    \b
    Examples:
      trackbed controller
      trackbed controller --metrics :8080
      trackbed controller --kubeconfig admin.conf --name laptop
      trackbed controller --stacks sriov-operator
    """
    import asyncio

    from trackbed.cluster.api.client import connect
    from trackbed.cluster.api.errors import ConfigurationError
    from trackbed.cluster.controller.run import serve
    from trackbed.cluster.daemon.http_server import ListenError

    prepare_daemon()
    try:
        client = connect(kubeconfig, context)
    except ConfigurationError as error:
        refuse(error)
    try:
        asyncio.run(serve(client, namespace, name or f"{socket.gethostname()}-{os.getpid()}", metrics, stacks))
    except ListenError as error:
        refuse(error)
