"""The ports of a fabric as numbers, and the uplinks between its leaves and spines.

A port is node * rails + rail, where nodes are numbered in order of slot. 100,000 ports are a few arrays of integers,
because a proof pairs all of them in each round.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from trackbed.fabric.plan.plan import Plan

NO_LEAF = -1
"""Leaf of a port that does not exist."""


class Uplinks(NamedTuple):
    """The links of each leaf towards its spines.

    The leaves of one rail and one pod share their spines. A pod consists of `units_per_pod` scalable units; None means
    that the fabric is one pod.
    """

    spines: int
    links: int = 1
    """Parallel links between a leaf and each of its spines."""
    rate_share: float = 1.0
    """Rate of one link, as a fraction of the rate of a node's port."""
    units_per_pod: int | None = None

    @property
    def links_per_leaf(self) -> int:
        """Links of a leaf to all its spines: the ECMP members among which a flow is hashed."""
        return self.spines * self.links


class FabricTopology(NamedTuple):
    """Nodes, ports and leaves of a fabric by number."""

    rails: int
    nodes: tuple[str, ...]
    units: array[int]
    """Scalable unit of each node."""
    leaves: tuple[str, ...]
    leaf_of: array[int]
    """Leaf of each port; NO_LEAF where a node has no port on a rail."""
    ports: tuple[tuple[array[int], ...], ...]
    """Ports of each rail, by leaf and in order of slot."""
    pods: array[int]
    """Pod of each leaf."""
    uplinks: Uplinks

    def count_ports(self) -> int:
        """Return the number of existing ports."""
        return sum(len(leaf) for rail in self.ports for leaf in rail)

    def iter_pods(self, rail: int) -> Iterator[list[array[int]]]:
        """Yield, for each pod, the ports of its leaves on a rail."""
        by_pod: dict[int, list[array[int]]] = {}
        for leaf in self.ports[rail]:
            by_pod.setdefault(self.pods[self.leaf_of[leaf[0]]], []).append(leaf)
        yield from by_pod.values()


def read_uplinks(plan: Plan, port_gbps: float | None = None) -> Uplinks:
    """Return the uplinks of a plan; without them, one for each host of a leaf, each to a spine of its own.

    `port_gbps` is the rate of the nodes' ports; None: unknown, and taken as that of the links.
    """
    if plan.uplinks is None:
        return Uplinks(spines=plan.common.nodes_per_unit)
    spines, links, rate_gbps, units_per_pod = plan.uplinks
    rate_share = rate_gbps / port_gbps if rate_gbps and port_gbps else 1.0
    return Uplinks(spines, links, rate_share, units_per_pod)


def build_topology(plan: Plan, uplinks: Uplinks | None = None) -> FabricTopology:
    """Number the nodes, ports and leaves of a plan. Default uplinks: see `read_uplinks`."""
    common = plan.common
    rails = len(common.rails)
    chosen = uplinks or read_uplinks(plan)
    numbers: dict[str, int] = {}
    pods = array("i")
    leaf_of = array("i", [NO_LEAF]) * (len(plan.nodes) * rails)
    by_leaf: list[dict[int, array[int]]] = [{} for _ in range(rails)]
    for index, node in enumerate(plan.nodes):
        pod = node.unit // chosen.units_per_pod if chosen.units_per_pod else 0
        for port in node.ports:
            leaf = numbers.setdefault(port.leaf, len(numbers))
            if leaf == len(pods):
                pods.append(pod)
            number = index * rails + port.rail
            leaf_of[number] = leaf
            by_leaf[port.rail].setdefault(leaf, array("i")).append(number)
    return FabricTopology(
        rails=rails,
        nodes=tuple(node.name for node in plan.nodes),
        units=array("i", (node.unit for node in plan.nodes)),
        leaves=tuple(numbers),
        leaf_of=leaf_of,
        ports=tuple(tuple(leaves.values()) for leaves in by_leaf),
        pods=pods,
        uplinks=chosen,
    )
