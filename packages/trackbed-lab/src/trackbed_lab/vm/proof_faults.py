"""Faults that a proof has to name on emulated servers: of a port, a cable, a leaf, an uplink, an RDMA device."""

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.prove.report import CulpritReport
from trackbed_lab.vm.leaves import LeafSettings, PortSettings, SwitchSettings, name_port, swap_cables
from trackbed_lab.vm.machine import MANAGEMENT


class FaultPlace(NamedTuple):
    """Where a fault is injected: a node and one of its ports."""

    node: NodePlan
    port: PortPlan

    @property
    def rdma(self) -> str:
        """The planned name of the port's RDMA device."""
        return next(rail.rdma for rail in self.node.common.rails if rail.rail == self.port.rail)


class ProofFault(NamedTuple):
    """A fault: what the leaves do, what is done on the server, and who is to be named for it."""

    name: str
    is_named: Callable[[FaultPlace, CulpritReport], bool]
    """Whether a culprit is the fault."""
    change_leaves: Callable[[FaultPlace, SwitchSettings], SwitchSettings] = lambda _, settings: settings
    break_script: str = ""
    """Shell script on the server; {rdma} is the port's device, {netdev} its interface."""
    heal_script: str = ""


def _set_port(settings: PortSettings) -> Callable[[FaultPlace, SwitchSettings], SwitchSettings]:
    """Return a change of the leaf's end of the port."""
    return lambda place, sound: replace(
        sound, ports={**sound.ports, name_port(place.node.name, place.port.rail): settings}
    )


def _set_leaf(settings: LeafSettings) -> Callable[[FaultPlace, SwitchSettings], SwitchSettings]:
    """Return a change of the port's leaf."""
    return lambda place, sound: replace(sound, leaves={**sound.leaves, place.port.leaf: settings})


def _swap(place: FaultPlace, sound: SwitchSettings) -> SwitchSettings:
    """Swap the port's cable with that of the node's next rail."""
    rails = [port.rail for port in place.node.ports]
    other = rails[(rails.index(place.port.rail) + 1) % len(rails)]
    return swap_cables(sound, place.node.name, place.port.rail, other)


def _is_port(place: FaultPlace, culprit: CulpritReport) -> bool:
    return (culprit.kind, culprit.nodes, culprit.rail) == ("port", (place.node.name,), place.port.rail)


def _is_node_or_port(place: FaultPlace, culprit: CulpritReport) -> bool:
    return culprit.kind in {"node", "port"} and culprit.nodes == (place.node.name,)


def _is_leaf(place: FaultPlace, culprit: CulpritReport) -> bool:
    return (culprit.kind, culprit.leaves) == ("leaf", (place.port.leaf,))


def _is_uplink(place: FaultPlace, culprit: CulpritReport) -> bool:
    """Whether it is the leaf's uplink; with two leaves alone, the path between them cannot be told from it."""
    return culprit.kind in {"uplink", "path"} and place.port.leaf in culprit.leaves


_MOVE = "rdma link delete {rdma} && rdma link add {rdma} type rxe netdev "

FAULTS: tuple[ProofFault, ...] = (
    ProofFault("slow port", _is_port, _set_port(PortSettings(rate_share=0.6))),
    ProofFault("lossy port", _is_port, _set_port(PortSettings(loss=0.08))),
    ProofFault("wrong leaf", _is_node_or_port, _swap),
    ProofFault("leaf MTU 1500", _is_leaf, _set_leaf(LeafSettings(mtu_bytes=1500))),
    ProofFault("slow uplink", _is_uplink, _set_leaf(LeafSettings(uplink_share=0.6))),
    ProofFault(
        "missing GID", _is_port, break_script=_MOVE + MANAGEMENT, heal_script=_MOVE + "{netdev}"
    ),  # a device of another interface has its addresses
)
"""All faults, in the order in which they are injected. What breaks an RDMA device is last: after it the VF of a pod has
no device when the next pod begins, and a device plugin gives that one none."""
