"""Which nodes do not offer what they must: all nodes by one list, told by what is the matter with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trackbed.cluster.api.answer import Object
from trackbed.cluster.api.client import Client
from trackbed.cluster.rollout.progress import not_ready
from trackbed.cluster.stacks.stack import Offered

_SHOWN = 5
"""Nodes named of each sort."""

_ABSENT = "join nodes that are not in the cluster under the plan's names, or take them out of the Fabric"
_DOWN = "`kubectl describe node NAME` says why a node is not Ready; bring it up, or delete it and take it out"
_SILENT = "`trackbed doctor` on a node says why it does not offer a rail"


def lacking(client: Client, offered: Offered) -> tuple[tuple[str, ...], str]:
    """A line for each sort of what is missing, and what to do; both empty where nothing is. Raises KubeError."""
    wanted, of = dict(offered.nodes), len(offered.nodes)
    down: list[str] = []
    silent: dict[tuple[str, ...], list[str]] = {}
    for node in client.list("v1", "Node"):
        name = node["metadata"]["name"]
        resources = wanted.pop(name, ())
        if resources and (why := not_ready(node)):
            down.append(f"{name} ({why})")
        elif without := tuple(one for one in resources if not allocatable(node, one)):
            silent.setdefault(without, []).append(name)
    sorts = (
        *_line(list(wanted), "are not in the cluster", of),
        *_line(down, "are down", of),
        *(line for without, names in silent.items() for line in _line(names, f"offer no {', '.join(without)}", of)),
    )
    remedies = ((_ABSENT, wanted), (_DOWN, down), (_SILENT, silent))
    return sorts, "; ".join(text for text, there in remedies if there)


def allocatable(node: Object, resource: str) -> int:
    """How many of a resource a node has to give."""
    quantity = str(node.get("status", {}).get("allocatable", {}).get(resource, "0"))
    return int(quantity) if quantity.isdecimal() else 0


def _line(names: Sequence[str], what: str, of: int) -> Iterator[str]:
    if names:
        more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        yield f"{len(names)} of {of} nodes {what}: {', '.join(names[:_SHOWN])}{more}"
