"""Cases of the simulation: 11 kinds of faults, with losses and places, and who is to blame for each."""

import random
from dataclasses import dataclass
from typing import Final

from bench.prove_network import Faults
from trackbed.prove.culprits import Culprit, CulpritKind
from trackbed.prove.topology import FabricTopology

LOSSES: Final = {
    "bad NIC": (0.15, 0.3, 0.6, 1.0),
    "PCIe width": (0.3, 0.6),
    "cable": (0.15, 0.3, 0.6, 1.0),
    "wrong leaf": (1.0,),
    "leaf uplink": (0.15, 0.3, 0.6, 1.0),
    "ECMP member": (0.15, 0.3, 0.6, 1.0),
    "spine": (0.15, 0.3, 0.6, 1.0),
    "leaf MTU": (1.0,),
    "QoS of a rail": (0.15, 0.3, 0.6),
    "slow half of a unit": (0.15, 0.3, 0.6),
    "two at once": (0.15, 0.3, 0.6, 1.0),
}
"""Losses that a fault can have: a port without lanes has no half, a wrong leaf or MTU passes nothing."""
OF_MANY: Final = ("leaf uplink", "ECMP member", "spine")
"""Faults of a link of many, which a screen does not find: they get cover rounds."""
PLACES: Final = ("first unit", "last unit")
Key = tuple[CulpritKind, int | None, tuple[int, ...], int | None, int | None, tuple[int, ...]]


@dataclass(frozen=True)
class Case:
    """A kind of fault, its loss, and where it is."""

    kind: str
    loss: float
    place: str


@dataclass(frozen=True)
class Incident:
    """A case in a topology: its faults, and the culprits that have to be named."""

    faults: Faults
    culprits: tuple[Key, ...]


def list_cases() -> list[Case]:
    """Return all cases."""
    return [Case(kind, loss, place) for kind, losses in LOSSES.items() for loss in losses for place in PLACES]


def to_key(culprit: Culprit) -> Key:
    """Return what names a culprit, without its loss."""
    return (culprit.kind, culprit.rail, culprit.leaves, culprit.spine, culprit.unit, culprit.nodes)


def happen(case: Case, topology: FabricTopology, chance: random.Random) -> Incident:
    """Choose the exact place of a case."""
    units = sorted(set(topology.units))
    unit = units[0] if case.place == PLACES[0] else units[-1]
    nodes = [node for node, node_unit in enumerate(topology.units) if node_unit == unit]
    rail, node = chance.randrange(topology.rails), chance.choice(nodes)
    left, leaf = 1 - case.loss, topology.leaf_of[node * topology.rails + rail]
    match case.kind:
        case "leaf MTU":
            incident = Incident(Faults(leaves={leaf: left}), (("leaf", rail, (leaf,), None, None, ()),))
        case "QoS of a rail":
            incident = Incident(Faults(rails={rail: left}), (("rail", rail, (), None, None, ()),))
        case "slow half of a unit":
            half = nodes[: len(nodes) // 2]
            ports = [slow * topology.rails + each for slow in half for each in range(topology.rails)]
            key: Key = ("unit", None, (), None, unit, tuple(half))
            incident = Incident(Faults(ports=dict.fromkeys(ports, left)), (key,))
        case kind if kind in OF_MANY:
            incident = _break_links(case, topology, rail, leaf, chance)
        case _:
            incident = _break_ports(case, topology, rail, (node, chance.choice([n for n in nodes if n != node])))
    return incident


def _break_ports(case: Case, topology: FabricTopology, rail: int, nodes: tuple[int, int]) -> Incident:
    """Break a port, or with "two at once" also the port of the next rail of another node."""
    rails = topology.rails
    broken = [(rail, nodes[0]), ((rail + nodes[1]) % rails, nodes[1])][: 2 if case.kind == "two at once" else 1]
    ports = {node * rails + node_rail: 1 - case.loss for node_rail, node in broken}
    return Incident(Faults(ports=ports), tuple(_build_port(*port) for port in broken))


def _break_links(case: Case, topology: FabricTopology, rail: int, leaf: int, chance: random.Random) -> Incident:
    """Break a link between leaf and spine, all of them, or all links of the spine."""
    links, members = topology.uplinks.links, topology.uplinks.links_per_leaf
    spine, member = chance.randrange(topology.uplinks.spines), chance.randrange(links)
    leaves = [leaf]
    if case.kind == "spine":
        on_rail = [topology.leaf_of[ports[0]] for ports in topology.ports[rail]]
        leaves = [other for other in on_rail if topology.pods[other] == topology.pods[leaf]]
    chosen = [member] if case.kind == "ECMP member" else range(links)
    faulty = {other * members + spine * links + number: 1 - case.loss for other in leaves for number in chosen}
    key: Key = (
        ("spine", rail, (), spine, None, ()) if case.kind == "spine" else ("uplink", rail, (leaf,), spine, None, ())
    )
    return Incident(Faults(links=faulty), (key,))


def _build_port(rail: int, node: int) -> Key:
    return ("port", rail, (), None, None, (node,))
