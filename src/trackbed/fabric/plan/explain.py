"""Whose is an address, or whose would it be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trackbed.fabric.model.ranges import V4, Range, text
from trackbed.fabric.plan.compute import build_layouts

if TYPE_CHECKING:
    from trackbed.fabric.model.fabric import Fabric
    from trackbed.fabric.plan.plan import Addressed, NodePlan, Plan
    from trackbed.fabric.plan.schemes.layout import RangeLayout


class Explanation(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an address is. `role`: port, pod, gateway, leaf, network, broadcast, free, reserved, outside."""

    address: str
    role: str
    text: str
    rail: int | None = None
    slot: int | None = None
    node: str | None = None


def explain(fabric: Fabric, plan: Plan, version: int, address: int) -> Explanation:
    """Say what `address` is in this plan; never raises, an address of no rail is `outside`."""
    shown = text(version, address)
    for rail, (cut, layout) in enumerate(build_layouts(fabric.spec, version)):
        if cut is not None and layout is not None and address in cut:
            return _in_rail(plan, rail, cut, layout, address)
    supernet = plan.common.supernet(version)
    where = f" (it lies in the supernet {supernet}, between the rails)" if supernet and address in supernet else ""
    return Explanation(shown, "outside", f"{shown} belongs to no rail of fabric {plan.common.fabric}{where}")


def _in_rail(plan: Plan, rail: int, cut: Range, layout: RangeLayout, address: int) -> Explanation:
    scheme = plan.common.scheme
    shown = text(cut.version, address)
    if address == cut.base and not _is_port(layout, address):
        return Explanation(shown, "network", f"{shown} is the network address of rail {rail}'s {cut}; nobody's", rail)
    if scheme == "shared-subnet" and layout.slots and address == layout.compute_address(0).gateway:
        return Explanation(shown, "gateway", f"{shown} is the gateway of rail {rail} ({cut})", rail)
    if cut.version == V4 and address == cut.last and scheme == "shared-subnet":
        return Explanation(
            shown, "broadcast", f"{shown} is the broadcast address of rail {rail}'s {cut}; nobody's", rail
        )
    slot = _slot(layout, address, scheme)
    own = layout.compute_address(slot) if slot is not None else None
    role = _role(own, address) if own else None
    if slot is None or own is None or role is None:
        return Explanation(
            shown, "reserved", f"{shown} lies in rail {rail}'s {cut}, in no node's share; nobody's", rail
        )
    return _of_slot(plan, rail, slot, shown, role)


def _is_port(layout: RangeLayout, address: int) -> bool:
    return layout.slots > 0 and layout.compute_address(0).address == address


def _slot(layout: RangeLayout, address: int, scheme: str) -> int | None:
    """The highest slot whose share begins at or below `address`: bisection, since layouts rise with the slot."""
    low, high = 0, layout.slots
    while low < high:
        middle = (low + high) // 2
        if _first(layout.compute_address(middle), scheme) <= address:
            low = middle + 1
        else:
            high = middle
    return low - 1 if low else None


def _first(own: Addressed, scheme: str) -> int:
    """Where a node's share begins: with the port in a subnet shared by all, else with the node's own subnet."""
    return own.address if scheme == "shared-subnet" else own.subnet.base


def _role(own: Addressed, address: int) -> str | None:
    if address == own.address:
        return "port"
    if own.pods_first <= address < own.pods_first + own.pods_count:
        return "pod"
    if address == own.gateway:
        return "leaf"
    if address == own.subnet.base:
        return "network"
    return "broadcast" if address == own.subnet.last else None


_WORDS = {
    "port": "the port of {who} on rail {rail}",
    "pod": "for pods of {who} on rail {rail}",
    "leaf": "the leaf's, gateway of {who} on rail {rail}",
    "network": "the network address of {who}'s subnet on rail {rail}; nobody's",
    "broadcast": "the broadcast address of {who}'s subnet on rail {rail}; nobody's",
}


def _of_slot(plan: Plan, rail: int, slot: int, shown: str, role: str) -> Explanation:
    node: NodePlan | None = next((n for n in plan.nodes if n.slot == slot), None)
    unit = slot // plan.common.nodes_per_unit
    who = node.name if node else "a node"
    words = _WORDS[role].format(who=who, rail=rail)
    if node is None:
        message = f"{shown} is free: it would be {words} with slot {slot} (unit {unit})"
        return Explanation(shown, "free", message, rail, slot)
    return Explanation(shown, role, f"{shown} is {words} (slot {slot}, unit {unit})", rail, slot, node.name)
