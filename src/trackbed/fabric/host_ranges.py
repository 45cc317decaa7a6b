"""Host names as ranges, gpu-[0-63], in the syntax that ClusterShell and Slurm share."""

from collections.abc import Iterable


def fold_hosts(names: Iterable[str]) -> str:
    """Fold host names into ranges; those that are no names of hosts to ClusterShell are listed as they are.

    @groups are not resolved, since ClusterShell would run programs for that.
    """
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException  # noqa: PLC0415 - 30 ms that --help must not pay

    listed = list(names)
    try:
        return str(NodeSet.fromlist(listed, resolver=RESOLVER_NOGROUP))
    except NodeSetException:
        return ",".join(listed)
