"""Explanation of an address: the rail, node and role that it has in a plan."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.model.ranges import V4, Range, format_address
from trackbed.fabric.plan.compute import build_layouts
from trackbed.fabric.plan.plan import AddressPlan, CommonPlan, NodePlan, Plan
from trackbed.fabric.plan.schemes.layout import RangeLayout


class Explanation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Owner and role of an address.

    `role`: port, pod, gateway, leaf, network, broadcast, free, reserved, other, outside.
    """

    address: str
    role: str
    text: str
    rail: int | None = None
    slot: int | None = None
    node: str | None = None


def explain_address(
    fabric: Fabric, plan: Plan, ip_version: int, address: int, slots: Mapping[str, int] = MappingProxyType({})
) -> Explanation:
    """Return the explanation of an address; an address outside all rails has the role `other` or `outside`.

    `slots` are those of the lock, which keeps the slots of nodes that left the Fabric.
    """
    address_text = format_address(ip_version, address)
    for rail, (rail_range, layout) in enumerate(build_layouts(fabric.spec, ip_version)):
        if rail_range is not None and layout is not None and address in rail_range:
            return _name_former_node(_explain_in_rail(plan, rail, rail_range, layout, address), slots)
    if other := _explain_other_range(fabric, plan, ip_version, address):
        return other
    supernet = plan.common.get_supernet(ip_version)
    hint = f" (it lies in the supernet {supernet}, between the rails)" if supernet and address in supernet else ""
    return Explanation(
        address_text, "outside", f"{address_text} belongs to no rail of fabric {plan.common.fabric}{hint}"
    )


def _name_former_node(explanation: Explanation, slots: Mapping[str, int]) -> Explanation:
    """Return the explanation; a free address whose slot the lock keeps for a node is reserved."""
    former = next((name for name, slot in slots.items() if slot == explanation.slot), None)
    if explanation.role != "free" or former is None:
        return explanation
    text = f"{explanation.address} is kept for {former}, which left the Fabric: the lock gives it slot "
    text += f"{explanation.slot}, here on rail {explanation.rail}"
    return msgspec.structs.replace(explanation, role="reserved", text=text, node=former)


_OTHER_RANGES = {"pods": "pods of the primary network", "services": "services", "nodes": "nodes", "docker": "docker"}


def _explain_other_range(fabric: Fabric, plan: Plan, ip_version: int, address: int) -> Explanation | None:
    text = format_address(ip_version, address)
    for field, users in _OTHER_RANGES.items():
        for other in getattr(fabric.spec.other_ranges, field):
            if other.version == ip_version and address in other:
                message = f"{text} belongs to no rail of fabric {plan.common.fabric}: it lies in {other}, which "
                return Explanation(text, "other", f"{message}otherRanges.{field} keeps for {users}")
    return None


def _explain_in_rail(plan: Plan, rail: int, rail_range: Range, layout: RangeLayout, address: int) -> Explanation:
    address_text = format_address(rail_range.version, address)
    if address == rail_range.base and not _is_port(layout, address):
        return Explanation(
            address_text,
            "network",
            f"{address_text} is the network address of rail {rail}'s {rail_range}; not assigned",
            rail,
        )
    if plan.common.has_shared_subnets and layout.slots and address == layout.compute_address(0).gateway:
        return Explanation(
            address_text, "gateway", f"{address_text} is the gateway of rail {rail} ({rail_range})", rail
        )
    if rail_range.version == V4 and address == rail_range.last and plan.common.has_shared_subnets:
        return Explanation(
            address_text,
            "broadcast",
            f"{address_text} is the broadcast address of rail {rail}'s {rail_range}; not assigned",
            rail,
        )
    slot = _find_slot(plan.common, layout, address)
    addressing = layout.compute_address(slot) if slot is not None else None
    role = _find_role(addressing, address) if addressing else None
    if slot is None or addressing is None or role is None:
        place = f"rail {rail}'s {rail_range}, in no node's share"
        if slot is not None and addressing and not plan.common.has_shared_subnets and address in addressing.subnet:
            place = f"{_find_owner(plan, slot)}'s {addressing.subnet} on rail {rail}"
        return Explanation(address_text, "reserved", f"{address_text} lies in {place}; not assigned", rail)
    return _explain_slot(plan, rail, slot, address_text, role)


def _is_port(layout: RangeLayout, address: int) -> bool:
    return layout.slots > 0 and layout.compute_address(0).address == address


def _find_slot(common: CommonPlan, layout: RangeLayout, address: int) -> int | None:
    """Return the highest slot whose addresses start at or below `address`.

    Uses bisection, since the addresses of a layout increase with the slot.
    """
    low, high = 0, layout.slots
    while low < high:
        middle = (low + high) // 2
        if _find_first_address(common, layout.compute_address(middle)) <= address:
            low = middle + 1
        else:
            high = middle
    return low - 1 if low else None


def _find_first_address(common: CommonPlan, addressing: AddressPlan) -> int:
    """Return the first address of a node: the port's in a shared subnet, else the base of the node's subnet."""
    return addressing.address if common.has_shared_subnets else addressing.subnet.base


def _find_role(addressing: AddressPlan, address: int) -> str | None:
    if address == addressing.address:
        return "port"
    if addressing.pods_first <= address < addressing.pods_first + addressing.pods_count:
        return "pod"
    if address == addressing.gateway:
        return "leaf"
    if address == addressing.subnet.base:
        return "network"
    return "broadcast" if address == addressing.subnet.last else None


_DESCRIPTIONS = {
    "port": "the port of {owner} on rail {rail}",
    "pod": "for pods of {owner} on rail {rail}",
    "leaf": "the leaf's, gateway of {owner} on rail {rail}",
    "network": "the network address of {owner}'s subnet on rail {rail}; not assigned",
    "broadcast": "the broadcast address of {owner}'s subnet on rail {rail}; not assigned",
}


def _find_owner(plan: Plan, slot: int) -> str:
    return next((node.name for node in plan.nodes if node.slot == slot), "a node")


def _explain_slot(plan: Plan, rail: int, slot: int, address_text: str, role: str) -> Explanation:
    node: NodePlan | None = next((candidate for candidate in plan.nodes if candidate.slot == slot), None)
    unit = slot // plan.common.nodes_per_unit
    owner = _find_owner(plan, slot)
    description = _DESCRIPTIONS[role].format(owner=owner, rail=rail)
    if node is None:
        message = f"{address_text} is free: it would be {description} with slot {slot} (unit {unit})"
        return Explanation(address_text, "free", message, rail, slot)
    return Explanation(
        address_text, role, f"{address_text} is {description} (slot {slot}, unit {unit})", rail, slot, node.name
    )
