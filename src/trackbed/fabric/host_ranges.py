"""Host names as ranges, gpu-[0-63], in the syntax that ClusterShell and Slurm share."""

from collections.abc import Iterable


def fold_hosts(names: Iterable[str]) -> str:
    """Fold host names into ranges. @groups are not resolved, since ClusterShell would run programs for that."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet  # noqa: PLC0415 - 30 ms that --help must not pay

    return str(NodeSet.fromlist(list(names), resolver=RESOLVER_NOGROUP))
