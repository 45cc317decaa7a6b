"""`trackbed uninstall`: takes away what controller and webhook left in a cluster."""

from __future__ import annotations

import click

from trackbed.cli.cluster_session import open_cluster
from trackbed.cli.options import refuse


@click.command("uninstall")
@click.option("--namespace", default="trackbed-system", show_default=True, help="Where controller and webhook were.")
@click.option("--keep-fabrics", is_flag=True, help="Leave Fabrics, their locks and their kinds.")
@click.option(
    "--keep-locks", is_flag=True, help="Leave the locks: the same Fabric then gives the same addresses again."
)
@click.option(
    "--agents", is_flag=True, help="Have the agents leave their nodes, while they are installed, and do nothing else."
)
@click.option("--kubeconfig", metavar="FILE", help="How to reach the cluster. Default: as kubectl does.")
@click.option("--context", help="Context of the kubeconfig. Default: its current one.")
def command(
    namespace: str,
    kubeconfig: str | None,
    context: str | None,
    *,
    keep_fabrics: bool,
    keep_locks: bool,
    agents: bool,
) -> None:
    """Take away what controller and webhook made in a cluster, once both are gone; `helm uninstall` runs it by itself.

    Without agents, nodes that still call them can start no pod: before their DaemonSet goes --agents has each take
    itself out of its node's CNI chain.

    Deletes the webhook configurations, Fabrics and RailNodes, takes taint and cordon from nodes that were being
    prepared, and deletes what the programs kept. Hosts keep their settings: `trackbed apply --undo` on a host puts
    them back. Exits with 2 while the programs are installed, and with 3 when the cluster did not answer or refused.

    \b
    Examples:
      trackbed uninstall --agents
      trackbed uninstall
      trackbed uninstall --namespace rails --keep-locks
    """
    from trackbed.cluster.controller.uninstall import Keep, StillRunsError, uninstall
    from trackbed.cluster.rollout.agent_removal import remove_agents

    with open_cluster(kubeconfig, context) as cluster:
        if agents:
            cluster.run(remove_agents(cluster.client, namespace, click.echo))
            return
        try:
            cluster.run(uninstall(cluster.client.client, namespace, Keep(keep_fabrics, keep_locks), click.echo))
        except StillRunsError as error:
            refuse(str(error))
