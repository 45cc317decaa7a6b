"""The ends of paths in pods: which interface has an address of which rail, and which RDMA device has it as a GID.

Pods get their addresses from pools, and devices and interfaces under names of the stack's choice, so each pod is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trackbed.fabric.model.ranges import parse_address
from trackbed.fabric.plan.plan import CommonPlan, RailPlan
from trackbed.prove.rungs.rung import PathEnd, Step, get_mapping, get_text

STEP: Step = {"links": True}
"""The step of a node; its answer has `links`, each with `netdev`, `address` and `rdma`."""
NO_DEVICE = "-"
"""Name of an RDMA device that a pod does not have: no device can be called so."""

LOOK = "run `trackbed status`, and look at the events of the pod: its networks or devices are not as planned"
"""What to look at where a pod lacks a rail, or the RDMA device of one."""


def find_ends(common: CommonPlan, node: str, output: object) -> Mapping[int, PathEnd]:
    """Return the end of each rail of which the pod of a node has an address; a pod may answer anything."""
    entries = get_mapping(output).get("links")
    links = [link for link in entries if isinstance(link, Mapping)] if isinstance(entries, Sequence) else []
    ends: dict[int, PathEnd] = {}
    for rail in common.rails:
        link = next((link for link in links if _is_of_rail(get_text(link, "address"), rail)), None)
        if link is not None:
            device = get_text(link, "rdma") or NO_DEVICE
            ends[rail.rail] = PathEnd(node, rail.rail, get_text(link, "netdev"), device, get_text(link, "address"))
    return ends


def explain_absence(rail: RailPlan) -> str:
    """Return why a port has no tests in a pod."""
    ranges = " or ".join(str(planned) for planned in (rail.v4, rail.v6) if planned)
    return f"its pod has no address of rail {rail.rail} ({ranges})"


def _is_of_rail(text: str, rail: RailPlan) -> bool:
    try:
        version, address = parse_address(text)
    except ValueError:
        return False
    planned = rail.v4 if version == 4 else rail.v6  # noqa: PLR2004 - of IP
    return planned is not None and address in planned
