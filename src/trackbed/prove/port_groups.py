"""Ports whose files show a fault, grouped: a setting that is wrong everywhere is one culprit, and not thousands.

A group is the whole fabric, a rail, a node or a leaf of which nearly all ports that were read have the fault. It names
its nodes, since each of them was read: unlike a culprit that follows from traffic, it is sure of each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from statistics import median
from typing import NamedTuple

from trackbed.prove.culprits import Culprit
from trackbed.prove.topology import FabricTopology

_MOST_OF = 0.8
"""Share of the ports that were read which makes a group."""
_LEAST_PORTS, _LEAST_OF_NODE = 3, 2


class FaultyPorts(NamedTuple):
    """A culprit, its ports with the fault, and how many ports of it were read."""

    culprit: Culprit
    ports: tuple[int, ...]
    ports_read: int


def group_ports(topology: FabricTopology, losses: Mapping[int, float], read: Collection[int]) -> Iterator[FaultyPorts]:
    """Yield groups of the ports with a fault, the widest first, then single ports; `read` are all that were read."""
    left = set(losses)
    for culprit, members in _iter_scopes(topology, sorted(read)):
        ports = tuple(port for port in members if port in left)
        least = _LEAST_OF_NODE if culprit.kind == "node" else _LEAST_PORTS
        if len(ports) >= max(least, _MOST_OF * len(members)):
            nodes = tuple(sorted({port // topology.rails for port in ports}))
            loss = median(losses[port] for port in ports)
            yield FaultyPorts(culprit._replace(loss=loss, nodes=nodes), ports, len(members))
            left.difference_update(ports)
    for port in sorted(left):
        node, rail = divmod(port, topology.rails)
        yield FaultyPorts(Culprit("port", losses[port], rail=rail, nodes=(node,)), (port,), 1)


def _iter_scopes(topology: FabricTopology, ports: Collection[int]) -> Iterator[tuple[Culprit, list[int]]]:
    """Yield what may share a fault, with its ports among these: the fabric, rails, nodes, leaves."""
    if topology.rails > 1:
        yield Culprit("fabric", 0.0), list(ports)
    scopes: dict[Culprit, list[int]] = {}
    for port in ports:
        scopes.setdefault(Culprit("rail", 0.0, rail=port % topology.rails), []).append(port)
    for port in ports:
        scopes.setdefault(Culprit("node", 0.0, nodes=(port // topology.rails,)), []).append(port)
    for port in ports:
        leaf = Culprit("leaf", 0.0, rail=port % topology.rails, leaves=(topology.leaf_of[port],))
        scopes.setdefault(leaf, []).append(port)
    yield from scopes.items()
