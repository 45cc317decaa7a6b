"""`trackbed prove --pods`: the workers of a proof as pods of a Kubernetes cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from trackbed.cli.options import check_namespace, cluster_options, combine_options, refuse
from trackbed.cli.render_stack import complete_stack_name
from trackbed.cli.terminal import print_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trackbed.cli.prove_answers import AnswerFile
    from trackbed.cluster.jobs.requirements import PodRequirements
    from trackbed.fabric.plan.plan import Plan
    from trackbed.fleet.sheet_run import SheetCalls

_TERMINATED = 143
"""The exit status of a shell for a program that SIGTERM ended."""

pod_options = combine_options(
    click.option("--pods", is_flag=True, help="From one pod on each node, with the rails that jobs get; not over SSH."),
    click.option("--image", help="Image of the pods, with Python 3.9, rping and perftest."),
    click.option(
        "--stack",
        "stack_name",
        metavar="NAME",
        shell_complete=complete_stack_name,
        help="How pods get NICs. Default: the Fabric's kubernetes.stack.",
    ),
    click.option("--idle", is_flag=True, help="Leave out nodes on which a pod holds GPUs, rails or other devices."),
    click.option("--namespace", help="Namespace of the pods. Default: the Fabric's."),
    cluster_options,
)
"""--pods and the options that only it has."""


class PodOptions(NamedTuple):
    """The values of `pod_options`."""

    pods: bool
    image: str | None
    stack_name: str | None
    idle: bool
    namespace: str | None
    kubeconfig: str | None
    context: str | None

    def check(self, *, has_ssh_options: bool, needs_image: bool, uses_cluster: bool) -> None:
        """Exit with status 2 if options do not go together. `uses_cluster`: it is reached without pods, too."""
        others = {"pods", "kubeconfig", "context"} if uses_cluster else {"pods"}
        options = [
            f"--{name.removesuffix('_name')}" for name, value in self._asdict().items() if value and name not in others
        ]
        if self.pods and has_ssh_options:
            refuse("--user, --ssh-config and --launch start workers on hosts, and --pods starts none there")
        if self.namespace is not None:
            check_namespace(self.namespace)
        if self.pods and needs_image and not self.image:
            refuse("name the image of the pods with --image; it must hold Python 3.9, rping and perftest")
        if options and not self.pods:
            refuse(f"{options[0]} is an option of --pods; add it, or prove over SSH without {options[0]}")


def leave_out_busy_nodes(plan: Plan, options: PodOptions, former_runs: Sequence[str]) -> Plan:
    """Return the plan without the nodes on which a pod holds devices, and tell which these are.

    Pods of `former_runs`, which were killed, are removed before the proof goes on.
    """
    from trackbed.cli.cluster_session import open_cluster
    from trackbed.cluster.proof.idle import find_busy_nodes
    from trackbed.fabric.host_ranges import fold_hosts

    with open_cluster(options.kubeconfig, options.context) as cluster:
        busy = cluster.run(find_busy_nodes(cluster.client, former_runs))
    if left_out := [node.name for node in plan.nodes if node.name in busy]:
        print_line(f"{fold_hosts(left_out)}: left out, since pods hold devices there", err=True)
    return plan._replace(nodes=tuple(node for node in plan.nodes if node.name not in busy))


def run_in_pods(
    plan: Plan,
    requirements: PodRequirements,
    options: PodOptions,
    mode: str,
    rungs: Sequence[str],
    answers: AnswerFile,
    calls: SheetCalls,
) -> None:
    """Remove the pods of runs that were killed, and run sheets in new ones.

    Exit with status 3 if the cluster does not let them be created, 143 after SIGTERM.
    """
    import asyncio
    import secrets

    from trackbed.cli.cluster_session import open_cluster
    from trackbed.cluster.proof.deadline import compute_deadline, compute_start_seconds
    from trackbed.cluster.proof.objects import ProofSite
    from trackbed.cluster.proof.removal import remove_runs
    from trackbed.cluster.proof.run import run_sheets
    from trackbed.prove.budget import compute_ladder_budget
    from trackbed.prove.rungs import needs_gpus

    budget = compute_ladder_budget(plan, mode, rungs, compute_start_seconds(len(plan.nodes)))
    site = ProofSite(
        answers.run_name,
        options.namespace or plan.kubernetes.namespace,
        options.image or "",
        requirements,
        compute_deadline(budget),
        secrets.token_bytes(),
        plan.common,
        _list_gpu_limits(plan) if needs_gpus(rungs) else {},
    )
    names = [node.name for node in plan.nodes]
    with open_cluster(options.kubeconfig, options.context) as cluster:
        try:
            cluster.run(remove_runs(cluster.client, site.namespace, answers.former_runs))
            cluster.run(run_sheets(cluster.client, site, names, calls))
        except asyncio.CancelledError:
            raise SystemExit(_TERMINATED) from None


def _list_gpu_limits(plan: Plan) -> dict[str, dict[str, int]]:
    """Return the resource of each node's GPUs, and how many the node has as far as its rails have them."""
    counts = {node.name: 1 + max((gpu for port in node.ports for gpu in port.gpus), default=-1) for node in plan.nodes}
    return {name: {plan.get_gpu_resource(name): count} for name, count in counts.items() if count}
