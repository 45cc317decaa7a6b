"""The ends of paths in pods: which interface has an address of which rail, and which RDMA device has it as a GID.

Pods get their addresses from pools, and devices and interfaces under names of the stack's choice, so each pod is read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from trackbed.fabric.host_ranges import fold_hosts
from trackbed.fabric.model.ranges import format_address, parse_address
from trackbed.fabric.plan.plan import CommonPlan, RailPlan
from trackbed.prove.rungs.rung import PathEnd, Step, get_mapping, get_text

STEP: Step = {"links": True}
"""The step of a node; its answer has `links`, each with `netdev`, `address` and `rdma`."""
NO_DEVICE = "-"
"""Name of an RDMA device that a pod does not have: no device can be called so."""

_DEVICE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,62}")
"""Names of RDMA devices (IB_DEVICE_NAME_MAX) and interfaces; a longer one would be in each path of its files."""

LOOK = "run `trackbed status`, and look at the events of the pod: its networks or devices are not as planned"
"""What to look at where a pod lacks a rail, or the RDMA device of one."""


def find_ends(common: CommonPlan, node: str, output: object) -> Mapping[int, PathEnd]:
    """Return the end of each rail of which the pod of a node has an address; a pod may answer anything."""
    entries = get_mapping(output).get("links")
    links = [link for link in entries if isinstance(link, Mapping)] if isinstance(entries, Sequence) else []
    ends: dict[int, PathEnd] = {}
    for rail in common.rails:
        for link in links:
            if address := _find_address(get_text(link, "address"), rail):
                netdev, device = _get_name(link, "netdev"), _get_name(link, "rdma") or NO_DEVICE
                ends[rail.rail] = PathEnd(node, rail.rail, netdev, device, address)
                break
    return ends


def find_doubles(ends: Mapping[int, PathEnd]) -> Iterator[tuple[int, str]]:
    """Yield each port whose address another pod has too, and why it is not tested: which of both answers is open."""
    ports: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    for port, end in ends.items():
        ports[end.rail, end.address].append(port)
    for (_, address), claimants in ports.items():
        for port in claimants if len(claimants) > 1 else ():
            others = fold_hosts([ends[other].node for other in claimants if other != port])
            yield port, f"its pod has the address {address}, as that of {others} has"


def explain_absence(rail: RailPlan) -> str:
    """Return why a port has no tests in a pod."""
    ranges = " or ".join(str(planned) for planned in (rail.v4, rail.v6) if planned)
    return f"its pod has no address of rail {rail.rail} ({ranges})"


def _get_name(link: Mapping[str, object], key: str) -> str:
    name = get_text(link, key)
    return name if _DEVICE.fullmatch(name) else ""


def _find_address(text: str, rail: RailPlan) -> str:
    """Return an address of a rail without what a text may have beside it, such as a scope; empty for any other."""
    try:
        version, address = parse_address(text)
    except ValueError:
        return ""
    planned = rail.v4 if version == 4 else rail.v6  # noqa: PLR2004 - of IP
    return format_address(version, address) if planned is not None and address in planned else ""
