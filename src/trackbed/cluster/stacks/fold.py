"""Names as ranges, gpu-[0-63], in the form that ClusterShell and Slurm share."""

from __future__ import annotations

from collections.abc import Iterable

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet


def fold(names: Iterable[str]) -> str:
    """The names folded; @groups are not looked up, which would start programs that ClusterShell is configured with."""
    return str(NodeSet.fromlist(list(names), resolver=RESOLVER_NOGROUP))
