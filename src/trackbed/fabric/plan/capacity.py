"""Checks that need the arithmetic of the plan: capacity of the ranges, and overlap with other ranges."""

from collections.abc import Callable, Iterator, Mapping

from trackbed.fabric.model.fabric import FabricSpec
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.model.ranges import BITS, V4, Range, format_address
from trackbed.fabric.plan.schemes.layout import RangeLayout
from trackbed.fabric.plan.vf_identity import MAX_SLOT


def check_capacity(
    spec: FabricSpec,
    rail: int,
    rail_range: Range,
    build_layout: Callable[[Range], RangeLayout],
    slots: Mapping[str, int],
) -> Problem | None:
    """Return a problem unless all slots fit into the rail's range; it states what would fit, and what is needed."""
    room = build_layout(rail_range).slots
    needed = max(slots.values(), default=0) + 1
    if needed <= room:
        return None
    highest = max(slots, key=slots.__getitem__)
    reason = f" ({highest} has slot {needed - 1})" if needed > len(slots) else ""
    message = (
        f"{rail_range} of rail {rail} has room for {room} nodes, {len(slots)} are wanted{reason}; "
        f"{_describe_cure(rail_range, build_layout, needed)}"
    )
    field = f"ipv{rail_range.version}"
    is_configured = getattr(spec.rails[rail], field) is not None
    return Problem(
        "range-too-small", message, ("spec", *(("rails", rail) if is_configured else ("addressing",)), field)
    )


def _describe_cure(rail_range: Range, build_layout: Callable[[Range], RangeLayout], slots: int) -> str:
    """Return the longest prefix with room for `slots` slots, as a sentence's end; what helps if none has room."""
    for prefix in range(rail_range.prefix - 1, 0, -1):
        free = BITS[rail_range.version] - prefix
        if build_layout(Range(rail_range.version, rail_range.base >> free << free, prefix)).slots >= slots:
            return f"take a larger range: a /{prefix} for each rail"
    return "no larger range helps: write a larger nodesPerUnit, or a lower unit"


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
    spec: FabricSpec, rail_range: Range, rail: int, used_range: tuple[int, int], reach: int
) -> Iterator[Problem]:
    """Yield other ranges that contain a planned address (error) or one that a later node would have (warning).

    `used_range` is the first and last address that the plan assigns on this rail, `reach` the last that it would assign
    if the rail were full. In scheme shared-subnet the whole subnet is in use on the wire, so any overlap is an error.
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
            elif other.base <= reach:
                message = (
                    f"{label} range {other} lies in {rail_range} of rail {rail}; no planned address does so far, "
                    f"but the rail cannot grow into it; change one of them{or_none}"
                )
                yield Problem("overlap-later", message, path, severity="warning")


def check_routed_ranges(spec: FabricSpec, supernet: Range) -> Iterator[Problem]:
    """Yield ranges of nodes, pods and Services in a supernet that hosts have a route to by the first rail's gateway.

    Docker's bridge has a route of its own on each host, which is longer than the supernet's.
    """
    for field, label in (("pods", "pod"), ("services", "service"), ("nodes", "node")):
        for index, other in enumerate(getattr(spec.other_ranges, field)):
            if other.overlaps(supernet):
                message = (
                    f"{label} range {other} lies in {supernet}, which hosts reach by the gateway of their first rail: "
                    "addresses there that a host has no other route to leave by that rail; change one of them"
                )
                path = ("spec", "otherRanges", field, index)
                yield Problem("overlap-supernet", message, path, severity="warning")
