"""Nodes that do not offer their resources, grouped by the missing resources."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout.progress import describe_unready
from trackbed.cluster.stacks.stack import ResourceWait

_MAX_SHOWN_NODES = 5
"""Largest number of nodes that are named for each group."""

_ABSENT_REMEDY = "join nodes that are not in the cluster under the plan's names, or take them out of the Fabric"
_DOWN_REMEDY = "`kubectl describe node NAME` says why a node is not Ready; bring it up, or delete it and take it out"
_NOT_OFFERED_REMEDY = "`trackbed doctor` on a node says why it does not offer a rail"


class MissingOffers(NamedTuple):
    """Resources that nodes do not offer; both fields are empty if none is missing."""

    lines: tuple[str, ...]
    """A line for each group of nodes with the same missing resources."""
    remedy: str


async def find_missing_offers(client: DynamicClient, wait: ResourceWait) -> MissingOffers:
    """Return the resources of a wait that nodes do not offer. Raises KubeError."""
    absent, total = dict(wait.resources_by_node), len(wait.resources_by_node)
    down: list[str] = []
    silent: dict[tuple[str, ...], list[str]] = {}
    async for node in client.iter_objects("v1", "Node"):
        name = node["metadata"]["name"]
        resources = absent.pop(name, ())
        if resources and (why := describe_unready(node)):
            down.append(f"{name} ({why})")
        elif lacking := tuple(resource for resource in resources if not count_allocatable(node, resource)):
            silent.setdefault(lacking, []).append(name)
    lines = (
        *_iter_group_lines(list(absent), "are not in the cluster", total),
        *_iter_group_lines(down, "are down", total),
        *(
            line
            for lacking, names in silent.items()
            for line in _iter_group_lines(names, f"offer no {', '.join(lacking)}", total)
        ),
    )
    remedies = ((_ABSENT_REMEDY, absent), (_DOWN_REMEDY, down), (_NOT_OFFERED_REMEDY, silent))
    return MissingOffers(lines, "; ".join(text for text, nodes in remedies if nodes))


def count_allocatable(node: Object, resource: str) -> int:
    """Return the quantity of a resource that a node offers; 0 if it offers none."""
    quantity = str(node.get("status", {}).get("allocatable", {}).get(resource, "0"))
    return int(quantity) if quantity.isdecimal() else 0


def _iter_group_lines(names: Sequence[str], state: str, total: int) -> Iterator[str]:
    """Yield one line about the nodes of a group; nothing for an empty group."""
    if names:
        others = f", and {len(names) - _MAX_SHOWN_NODES} more" if len(names) > _MAX_SHOWN_NODES else ""
        yield f"{len(names)} of {total} nodes {state}: {', '.join(names[:_MAX_SHOWN_NODES])}{others}"
