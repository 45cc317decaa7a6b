"""`trackbed uninstall`: removes the objects of controller and webhook from a cluster."""

import click

from trackbed.cli.cluster_session import open_cluster
from trackbed.cli.options import cluster_options, refuse


@click.command("uninstall")
@click.option("--namespace", default="trackbed-system", show_default=True, help="Namespace of controller and webhook.")
@click.option("--keep-fabrics", is_flag=True, help="Keep Fabrics, their locks and their CRDs.")
@click.option("--keep-locks", is_flag=True, help="Keep the locks: the same Fabric then yields the same addresses.")
@click.option(
    "--agents", is_flag=True, help="Have the agents leave their nodes, while they are installed, and do nothing else."
)
@cluster_options
def command(
    namespace: str,
    kubeconfig: str | None,
    context: str | None,
    *,
    keep_fabrics: bool,
    keep_locks: bool,
    agents: bool,
) -> None:
    """Remove the objects of controller and webhook from a cluster after both have ended; `helm uninstall` runs it.

    A node whose CNI chain calls an agent that is gone cannot start pods: run --agents before the DaemonSet is deleted,
    so that each agent removes itself from its node's chain.

    Deletes the webhook configurations, Fabrics, RailNodes and the programs' own objects, and removes taint and cordon
    from nodes under preparation. Hosts keep their settings: `trackbed apply --undo` on a host restores them. Exits
    with 2 while the programs are installed, and with 3 when the cluster did not answer or refused.

    \b
    Examples:
      trackbed uninstall --agents
      trackbed uninstall
      trackbed uninstall --namespace rails --keep-locks
    """
    from trackbed.cluster.controller.uninstall import KeepOptions, StillInstalledError, uninstall
    from trackbed.cluster.rollout.agent_removal import remove_agents

    with open_cluster(kubeconfig, context) as cluster:
        if agents:
            cluster.run(remove_agents(cluster.client, namespace, click.echo))
            return
        try:
            cluster.run(uninstall(cluster.client.client, namespace, KeepOptions(keep_fabrics, keep_locks), click.echo))
        except StillInstalledError as error:
            refuse(error)
