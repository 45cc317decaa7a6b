"""What a proof blames, from the widest scope to the narrowest.

fabric   every rail is low, or a rail is low between its leaves although each leaf is sound
rail     a rail is low everywhere: its configuration (QoS, MTU, speed)
leaf     every port of a leaf is low towards every partner: the switch, or its configuration
unit     several nodes of one scalable unit are low: what they share (power, BIOS, cooling, an image)
spine    flows through one spine are low, of several leaves
uplink   flows through the links of one leaf are low, to one spine where it is known
path     flows between two leaves are low, and no third leaf tells which of both it is
node     most rails of a node are low: the node, not its NICs
port     one port is low with partners that are fine with others: NIC, PCIe slot, transceiver, cable or leaf port
"""

from typing import Literal, NamedTuple, get_args

from trackbed.prove.topology import FabricTopology

CulpritKind = Literal["fabric", "rail", "leaf", "unit", "spine", "uplink", "path", "node", "port"]
_ORDER: tuple[CulpritKind, ...] = get_args(CulpritKind)


class Culprit(NamedTuple):
    """A cause of low values; numbers that do not apply are None."""

    kind: CulpritKind
    loss: float
    """Fraction of the ports' rate that is missing: 0 to 1."""
    rail: int | None = None
    leaves: tuple[int, ...] = ()
    pod: int | None = None
    spine: int | None = None
    """Number of the spine among those of its rail and pod; None if the path was not traced."""
    unit: int | None = None
    nodes: tuple[int, ...] = ()


def rank(culprits: list[Culprit]) -> tuple[Culprit, ...]:
    """Return culprits from the widest scope to the narrowest, within a scope by loss."""
    return tuple(sorted(culprits, key=lambda culprit: (_ORDER.index(culprit.kind), -culprit.loss)))


def concerns(culprit: Culprit, a: int, b: int, topology: FabricTopology) -> bool:
    """Return whether a test between two ports runs over a culprit: over links between leaves only from leaf to leaf."""
    ports, leaves = (a, b), {topology.leaf_of[a], topology.leaf_of[b]}
    if culprit.nodes:
        rails = topology.rails
        return any(port // rails in culprit.nodes and culprit.rail in {None, port % rails} for port in ports)
    if culprit.rail is not None and all(port % topology.rails != culprit.rail for port in ports):
        return False
    if _is_between_leaves(culprit) and len(leaves) == 1:
        return False
    if culprit.kind == "path":
        return leaves == {*culprit.leaves}
    if culprit.kind == "spine":
        return all(topology.pods[leaf] == culprit.pod for leaf in leaves)
    return not culprit.leaves or not leaves.isdisjoint(culprit.leaves)


def _is_between_leaves(culprit: Culprit) -> bool:
    return culprit.kind in {"uplink", "path", "spine"} or (culprit.kind == "fabric" and culprit.rail is not None)


def describe(culprit: Culprit, topology: FabricTopology) -> str:
    """Return where a culprit is, how much is missing, and what to look at."""
    return f"{locate(culprit, topology)} is low by {culprit.loss:.0%}: {ADVICE[culprit.kind]}"


def locate(culprit: Culprit, topology: FabricTopology) -> str:
    """Return where a culprit is."""
    leaves = " and ".join(topology.leaves[leaf] for leaf in culprit.leaves)
    spine = "a spine that was not traced" if culprit.spine is None else f"spine {culprit.spine}"
    rail = f"rail {culprit.rail}"
    nodes = ", ".join(topology.nodes[node] for node in culprit.nodes[:_SHOWN_NODES])
    hidden = len(culprit.nodes) - _SHOWN_NODES
    if hidden > 0:
        nodes += f" and {hidden} more"
    return {
        "fabric": "the fabric" if culprit.rail is None else f"the fabric between the leaves of {rail}",
        "rail": rail,
        "leaf": f"leaf {leaves}",
        "unit": f"{len(culprit.nodes)} nodes of unit {culprit.unit} ({nodes})",
        "spine": f"{spine} of {rail}, pod {culprit.pod}",
        "uplink": f"the uplink of leaf {leaves} to {spine}",
        "path": f"the path between leaves {leaves}",
        "node": f"node {nodes}",
        "port": f"{rail} of {nodes}",
    }[culprit.kind]


_SHOWN_NODES = 3
ADVICE: dict[CulpritKind, str] = {
    "fabric": "compare its uplinks with what the leaves' ports need, and ECN and PFC of its switches",
    "rail": "compare QoS, MTU and speed of this rail's ports and leaves with those of another rail",
    "leaf": "compare the switch's MTU, QoS and software with those of another leaf",
    "unit": "compare BIOS settings, power and image of these nodes with the other nodes of the unit",
    "spine": "read the error counters of its ports; take it out of ECMP, and measure again",
    "uplink": "read the error counters at both ends of these links; take a suspect out of ECMP, and measure again",
    "path": "read the error counters of both leaves' uplinks",
    "node": "run `trackbed doctor` on it; compare its BIOS and PCIe settings with another node",
    "port": "run `trackbed doctor` on the node; compare PCIe width and error counters, then swap the cable",
}
"""What to look at, by kind."""
