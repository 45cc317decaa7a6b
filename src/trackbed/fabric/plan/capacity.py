"""Checks that need the arithmetic: does everything fit, and does it stay clear of what others use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.fabric.model.problems import Problem
from trackbed.fabric.model.ranges import V4, Range, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.fabric.model.fabric import FabricSpec
    from trackbed.fabric.plan.schemes.layout import RangeLayout


def check_capacity(cut: Range, rail: int, layout: RangeLayout, slots: int, nodes: int) -> Problem | None:
    """Whether `slots` slots fit into the rail's range; the message says how many nodes would."""
    if slots <= layout.slots:
        return None
    holes = f" (the lock reaches slot {slots - 1})" if slots > nodes else ""
    message = f"{cut} of rail {rail} has room for {layout.slots} nodes, {nodes} are wanted{holes}; take a larger range"
    return Problem("range-too-small", message, ("spec", "addressing", f"ipv{cut.version}"))


def check_gateway(cut: Range, rail: int, address: int) -> Problem | None:
    """Whether a rail's gateway is a usable address of its subnet."""
    field = "gateway" if cut.version == V4 else "gateway6"
    path = ("spec", "rails", rail, field)
    shown = text(cut.version, address)
    if address not in cut:
        return Problem("gateway-outside", f"gateway {shown} lies outside rail {rail}'s {cut}", path)
    if address == cut.base or (cut.version == V4 and address == cut.last):
        message = f"gateway {shown} is the network or broadcast address of {cut}; take one between"
        return Problem("gateway-unusable", message, path)
    return None


def check_other_ranges(spec: FabricSpec, cut: Range, rail: int, used: tuple[int, int]) -> Iterator[Problem]:
    """Ranges of others that hold a planned address (error) or only lie in the rail's range (warning).

    `used` is the first and last address that the plan really gives out on this rail. In scheme shared-subnet the whole
    subnet is on the wire, so any overlap is an error.
    """
    first, last = (cut.base, cut.last) if spec.addressing.scheme == "shared-subnet" else used
    for field, label in (("pods", "pod"), ("services", "service"), ("nodes", "node"), ("docker", "docker")):
        for index, other in enumerate(getattr(spec.other_ranges, field)):
            if not other.overlaps(cut):
                continue
            path = ("spec", "otherRanges", field, index)
            if other.base <= last and first <= other.last:
                message = f"{label} range {other} overlaps {cut} of rail {rail}; change one of them"
                if label == "docker":
                    message += ", or write otherRanges: {docker: []} where no docker runs"
                yield Problem("overlap", message, path)
            else:
                message = (
                    f"{label} range {other} lies in {cut} of rail {rail}; no planned address does so far, "
                    f"but the rail can not grow into it"
                )
                yield Problem("overlap-later", message, path, severity="warning")
