"""Faults to practise on: each breaks one link of a lab in the way the catalogue describes, and can be healed again.

A module a step; each has a tuple FAULTS of Fault(id, inject, heal). `heal` undoes what nobody else would; then the
node and its leaf are brought back to the plan by the code that configured them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed_lab.faults import addresses, names, pods, routing, switches
from trackbed_lab.faults.fault import LabFault
from trackbed_lab.faults.target import FaultTarget, TargetLab, UnsuitableError

if TYPE_CHECKING:
    from collections.abc import Mapping

FAULTS: Mapping[str, LabFault] = {
    fault.id: fault for module in (names, addresses, routing, pods, switches) for fault in module.FAULTS
}
"""All faults by id."""


_ON_HOSTS = frozenset(fault.id for module in (names, addresses, routing) for fault in module.FAULTS)


def find_target(site: TargetLab, node: str | None = None, rail: int | None = None) -> FaultTarget:
    """The port to break: by default the first node's rail 1 (rail 0 of a fabric with one rail)."""
    chosen = site.plan.node(node) if node else site.plan.nodes[0]
    if chosen is None:
        raise UnsuitableError(f"the lab has no node {node!r}; it has {', '.join(n.name for n in site.plan.nodes)}")
    number = rail if rail is not None else min(1, len(site.plan.common.rails) - 1)
    port = chosen.port(number)
    if port is None:
        raise UnsuitableError(f"node {chosen.name} has no port on rail {number}")
    return FaultTarget(site, chosen, port)


def inject(place: FaultTarget, fault_id: str) -> None:
    """Break a link of the lab; KeyError for an unknown fault, UnsuitableError where this lab has no place for it."""
    if fault_id in _ON_HOSTS and not place.is_on_host():
        pod = ", ".join(place.lab.list_pods(place.node.name))
        raise UnsuitableError(
            f"rail {place.port.rail} of {place.node.name} is inside {pod or 'a pod'}, "
            "so the host cannot be broken there; take `trackbed lab up` without --pods"
        )
    FAULTS[fault_id].inject(place)


def heal(place: FaultTarget, fault_id: str) -> None:
    """Undo a fault: its own traces first, then node, leaf and spine as planned."""
    FAULTS[fault_id].heal(place)
    leaf, _ = place.lab.find_leaf_end(place.node.name, place.port.rail)
    place.lab.restore_plan(place.lab.get_spine(), leaf, place.node.name, place.peer.name)
