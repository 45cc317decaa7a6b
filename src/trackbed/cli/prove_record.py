"""`trackbed prove --to-cluster`: what a proof says of nodes, kept in a cluster."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import click

from trackbed.cli.options import combine_options, refuse
from trackbed.cli.terminal import print_line

if TYPE_CHECKING:
    from trackbed.prove.proof import Proof
    from trackbed.prove.report import ProofReport

_SHOWN_FAILURES = 5

record_options = combine_options(
    click.option(
        "--to-cluster", "record", is_flag=True, help="Write condition Proved to the cluster's RailNodes, with events."
    ),
    click.option(
        "--taint",
        is_flag=True,
        help="With --to-cluster: taint blamed nodes (trackbed.dev/unproved:NoSchedule) until they are proved.",
    ),
)
"""--to-cluster and --taint."""


class RecordOptions(NamedTuple):
    """The values of `record_options`, and the cluster."""

    record: bool
    taint: bool
    kubeconfig: str | None
    context: str | None

    def check(self) -> None:
        """Exit with status 2 for --taint alone."""
        if self.taint and not self.record:
            refuse("--taint goes with --to-cluster, which says why a node is tainted; add it")


def check_railnodes(options: RecordOptions) -> None:
    """Exit, before hours of measuring, with status 2 or 3 if nothing could be recorded."""
    from trackbed.cli.cluster_session import open_cluster
    from trackbed.cluster.proof.record import has_railnodes

    with open_cluster(options.kubeconfig, options.context) as cluster:
        if not cluster.run(has_railnodes(cluster.client.client)):
            refuse(
                "the cluster has no RailNode to write to; `trackbed controller` makes them, or leave out --to-cluster"
            )


def record_proof(proof: Proof, report: ProofReport, options: RecordOptions) -> int:
    """Write what a proof says of each node into the cluster.

    Return 0, or the exit status if a write was refused or the cluster does not respond: the proof has its own.
    """
    from trackbed.cli.cluster_session import open_cluster
    from trackbed.cluster.proof.record import record_outcomes
    from trackbed.fabric.host_ranges import fold_hosts
    from trackbed.prove.node_outcomes import judge_nodes

    outcomes = list(judge_nodes(proof, report))
    try:
        with open_cluster(options.kubeconfig, options.context) as cluster:
            recorded = cluster.run(record_outcomes(cluster.client.client, outcomes, taints=options.taint))
    except SystemExit as end:  # it has said why
        return int(end.code or 0)
    for status, names in recorded.nodes.items():
        print_line(f"recorded: Proved is {status} on {fold_hosts(names)}", err=True)
    if recorded.absent:
        lack = f"{fold_hosts(recorded.absent)} {'have' if len(recorded.absent) > 1 else 'has'} no RailNode"
        print_line(f"not recorded: {lack}", err=True)
    for node, reason in islice(recorded.failures.items(), _SHOWN_FAILURES):
        print_line(f"not recorded: {node}: {reason}", err=True)
    if (hidden := len(recorded.failures) - _SHOWN_FAILURES) > 0:
        print_line(f"not recorded: {hidden} more, such as these", err=True)
    return 3 if recorded.failures else 0
