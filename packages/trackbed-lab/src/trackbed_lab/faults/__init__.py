"""Faults that can be injected into a lab, as the catalogue describes them.

There is a module for each step, or pair of steps, with a tuple FAULTS of LabFault, and ON_HOST: whether its faults need
the port on the host, not in a pod. The function `heal` of a fault undoes the changes that are outside the plan; then
the plan is applied again to the node and its switches.
"""

from collections.abc import Mapping
from importlib import import_module

from trackbed_lab.faults.fault import LabFault
from trackbed_lab.faults.target import FaultTarget, TargetLab, UnsuitableError

NAMES = ("names", "addresses", "routing", "pods", "switches")
"""Modules of this package."""

_MODULES = [import_module(f"{__name__}.{name}") for name in NAMES]

FAULTS: Mapping[str, LabFault] = {fault.id: fault for module in _MODULES for fault in module.FAULTS}
"""All faults by id."""

_ON_HOST = frozenset(fault.id for module in _MODULES if module.ON_HOST for fault in module.FAULTS)


def find_target(lab: TargetLab, name: str | None = None, rail: int | None = None) -> FaultTarget:
    """Return the port to break: by default the first node's rail 1 (rail 0 of a fabric with one rail).

    Raises:
        UnsuitableError: the lab has no such node or port.
    """
    node = lab.plan.find_node(name) if name else lab.plan.nodes[0]
    if node is None:
        raise UnsuitableError(f"the lab has no node {name!r}; it has {', '.join(node.name for node in lab.plan.nodes)}")
    number = rail if rail is not None else min(1, len(lab.plan.common.rails) - 1)
    port = node.find_port(number)
    if port is None:
        raise UnsuitableError(f"node {node.name} has no port on rail {number}")
    return FaultTarget(lab, node, port)


def inject_fault(target: FaultTarget, fault_id: str) -> None:
    """Inject a fault at a port.

    Raises:
        KeyError: there is no such fault.
        UnsuitableError: the fault cannot be injected in this lab, or not at this port.
    """
    if fault_id in _ON_HOST and not target.is_on_host():
        pod = ", ".join(target.lab.list_pods(target.node.name))
        raise UnsuitableError(
            f"rail {target.port.rail} of {target.node.name} is inside {pod or 'a pod'}, "
            "so the host cannot be broken there; take `trackbed lab up` without --pods"
        )
    FAULTS[fault_id].inject(target)


def heal_fault(target: FaultTarget, fault_id: str) -> None:
    """Heal a fault: undo its changes, then apply the plan to node, peer, leaf and spine."""
    FAULTS[fault_id].heal(target)
    leaf, _ = target.lab.find_leaf_end(target.node.name, target.port.rail)
    target.lab.restore_plan(target.lab.get_spine(), leaf, target.node.name, target.peer.name)
