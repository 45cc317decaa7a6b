"""Nodes that do not offer their resources, read with one list, and grouped by the missing resources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout.progress import describe_unready
from trackbed.cluster.stacks.stack import Offered

_SHOWN = 5
"""Nodes named of each group."""

_ABSENT = "join nodes that are not in the cluster under the plan's names, or take them out of the Fabric"
_DOWN = "`kubectl describe node NAME` says why a node is not Ready; bring it up, or delete it and take it out"
_SILENT = "`trackbed doctor` on a node says why it does not offer a rail"


async def find_missing_offers(client: DynamicClient, offered: Offered) -> tuple[tuple[str, ...], str]:
    """Return a line for each group of nodes, and a remedy; both empty where none is missing. Raises KubeError."""
    absent, total = dict(offered.nodes), len(offered.nodes)
    down: list[str] = []
    silent: dict[tuple[str, ...], list[str]] = {}
    async for node in client.list("v1", "Node"):
        name = node["metadata"]["name"]
        resources = absent.pop(name, ())
        if resources and (why := describe_unready(node)):
            down.append(f"{name} ({why})")
        elif lacking := tuple(resource for resource in resources if not count_allocatable(node, resource)):
            silent.setdefault(lacking, []).append(name)
    lines = (
        *_format_group(list(absent), "are not in the cluster", total),
        *_format_group(down, "are down", total),
        *(
            line
            for lacking, names in silent.items()
            for line in _format_group(names, f"offer no {', '.join(lacking)}", total)
        ),
    )
    remedies = ((_ABSENT, absent), (_DOWN, down), (_SILENT, silent))
    return lines, "; ".join(text for text, nodes in remedies if nodes)


def count_allocatable(node: Object, resource: str) -> int:
    """Return how many of a resource a node offers."""
    quantity = str(node.get("status", {}).get("allocatable", {}).get(resource, "0"))
    return int(quantity) if quantity.isdecimal() else 0


def _format_group(names: Sequence[str], state: str, total: int) -> Iterator[str]:
    if names:
        others = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        yield f"{len(names)} of {total} nodes {state}: {', '.join(names[:_SHOWN])}{others}"
