"""Checks that need the arithmetic of the plan: capacity of the ranges, and overlap with other ranges."""

from collections.abc import Callable, Iterator, Mapping

from trackbed.fabric.model.fabric import FabricSpec
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.model.ranges import BITS, V4, Range, format_address
from trackbed.fabric.plan.schemes.layout import RangeLayout
from trackbed.fabric.plan.vf_identity import MAX_SLOT


def check_capacity(
    rail_range: Range, rail: int, build_layout: Callable[[Range], RangeLayout], slots: int, nodes: int
) -> Problem | None:
    """Return a problem unless `slots` slots fit into the rail's range; it states what would fit, and what is needed."""
    room = build_layout(rail_range).slots
    if slots <= room:
        return None
    lock_hint = f" (the lock reaches slot {slots - 1})" if slots > nodes else ""
    message = (
        f"{rail_range} of rail {rail} has room for {room} nodes, {nodes} are wanted{lock_hint}; "
        f"take a larger range{_describe_size(rail_range, build_layout, slots)}"
    )
    return Problem("range-too-small", message, ("spec", "addressing", f"ipv{rail_range.version}"))


def _describe_size(rail_range: Range, build_layout: Callable[[Range], RangeLayout], slots: int) -> str:
    """Return the longest prefix with room for `slots` slots, as the end of a sentence; empty if none has it."""
    for prefix in range(rail_range.prefix - 1, 0, -1):
        free = BITS[rail_range.version] - prefix
        if build_layout(Range(rail_range.version, rail_range.base >> free << free, prefix)).slots >= slots:
            return f": a /{prefix} for each rail"
    return ""


def check_slots(spec: FabricSpec, slots: Mapping[str, int]) -> Iterator[Problem]:
    """Yield a problem if the VFs of a node cannot have MAC addresses of their own (see `vf_identity`)."""
    name = max(slots, key=slots.__getitem__, default="")
    if spec.vfs.count and slots.get(name, 0) > MAX_SLOT:
        message = (
            f"{name} has slot {slots[name]} (unit {slots[name] // spec.nodes_per_unit}), and VFs have MAC addresses up "
            f"to slot {MAX_SLOT}; write a lower unit or a smaller nodesPerUnit"
        )
        yield Problem("slot-too-high", message, ("spec", "nodesPerUnit"))


def check_gateway(rail_range: Range, rail: int, address: int) -> Problem | None:
    """Return a problem unless a rail's gateway is a usable address of its subnet."""
    field = "gateway" if rail_range.version == V4 else "gateway6"
    path = ("spec", "rails", rail, field)
    address_text = format_address(rail_range.version, address)
    if address not in rail_range:
        return Problem("gateway-outside", f"gateway {address_text} lies outside rail {rail}'s {rail_range}", path)
    if address == rail_range.base or (rail_range.version == V4 and address == rail_range.last):
        message = f"gateway {address_text} is the network or broadcast address of {rail_range}; choose another address"
        return Problem("gateway-unusable", message, path)
    return None


def check_other_ranges(
    spec: FabricSpec, rail_range: Range, rail: int, used_range: tuple[int, int]
) -> Iterator[Problem]:
    """Yield other ranges that contain a planned address (error) or overlap the rail's range only (warning).

    `used_range` is the first and last address that the plan assigns on this rail. In scheme shared-subnet the whole
    subnet is in use on the wire, so any overlap is an error.
    """
    first, last = (rail_range.base, rail_range.last) if spec.addressing.scheme == "shared-subnet" else used_range
    for field, label in (("pods", "pod"), ("services", "service"), ("nodes", "node"), ("docker", "docker")):
        for index, other in enumerate(getattr(spec.other_ranges, field)):
            if not other.overlaps(rail_range):
                continue
            path = ("spec", "otherRanges", field, index)
            or_none = ", or write otherRanges: {docker: []} where no docker runs" if label == "docker" else ""
            if other.base <= last and first <= other.last:
                message = f"{label} range {other} overlaps {rail_range} of rail {rail}; change one of them{or_none}"
                yield Problem("overlap", message, path)
            else:
                message = (
                    f"{label} range {other} lies in {rail_range} of rail {rail}; no planned address does so far, "
                    f"but the rail cannot grow into it; change one of them{or_none}"
                )
                yield Problem("overlap-later", message, path, severity="warning")
