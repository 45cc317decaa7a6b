"""What happened to a port since it was set up: its driver was loaded anew, or the IOMMU refused its accesses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.doctor.hardware import (
    DEVICES,
    describe_log_error,
    describe_log_reach,
    find_driver,
    find_log_line,
    iter_functions,
    list_accelerators,
    read_kernel_log,
)
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.fabric.plan.plan import PortPlan
    from trackbed.host.snapshot.snapshot import Snapshot
    from trackbed.kernel.netlink.links import Link

READS = Wanted(files=(f"{DEVICES}/{{pci}}/sriov_numvfs",))

_ANY_BLOCKED = r"(?:DMAR: \[|AMD-Vi: Event logged)"
_BLOCKED = (
    r"(?:DMAR: \[[^\]]* NO_PASID\] Request device \[{place}\]|"
    r"AMD-Vi: Event logged \[IO_PAGE_FAULT .*device=\S*{place})"
)
"""drivers/iommu/intel/dmar.c and amd/iommu.c; the first names bus, device and function only."""


def check(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Judge each port; GPUs, which belong to no one rail, together."""
    for port, pci in iter_functions(view, host):
        if port.rail not in view.rails_in_pods and find_driver(host, pci) is not None:
            yield from _reloaded(view, host, port, pci)
    log = read_kernel_log(host)
    if log is None:
        yield judge("driver-iommu-page-faults", view.node, None, ok=None, evidence=describe_log_error(host))
        return
    for port, pci in iter_functions(view, host):
        said = _blocked(log, pci)
        yield judge("driver-iommu-page-faults", view.node, port, ok=not said, evidence=said or describe_log_reach(log))
    told = [said for gpu in list_accelerators(host) if (said := _blocked(log, gpu))]
    if told:
        yield judge("driver-iommu-page-faults", view.node, None, ok=False, evidence=told[0])


def _blocked(log: str, pci: str) -> str:
    place = re.escape(pci.partition(":")[2])
    return find_log_line(log, _BLOCKED.format(place=place)) if re.search(_ANY_BLOCKED, log) else ""


def _reloaded(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    """All that hangs on the interface is gone at once, and what does not hang on it (the rule) is still there.

    Its carrier counts tell that it is younger than the last apply: they started again. An interface that was only taken
    down keeps them. The function is what makes it the port's: a new interface may not even have the planned name yet.
    """
    here = [link for link in view.state.links if link.parent_device == pci]
    link, known = next(iter(here), view.find_link(port)), (view.baseline or {}).get(port.netdev)
    if link is None or known is None or not port.addressed:
        return
    young = link.carrier_up_count + link.carrier_down_count < known[0]
    vfs = host.number(f"{DEVICES}/{pci}/sriov_numvfs") if view.node.common.vfs else 0
    lost = young and not vfs and _bare(view, port, link)
    table = view.node.common.rails[port.rail].table
    told = f"is new: no address, no route in table {table}, {vfs or 0} VFs; the rule for table {table} stayed"
    evidence = f"{link.name} {told if lost else 'has been there since it was set up'}"
    yield judge("driver-reload-lost-config", view.node, port, ok=not lost, evidence=evidence)


def _bare(view: NodeView, port: PortPlan, link: Link) -> bool:
    table, own = view.node.common.rails[port.rail].table, {address.address for address in port.addressed}
    ruled = any(rule.table == table for rule in view.state.rules)
    held = any(address.index == link.index and address.address in own for address in view.state.addresses)
    routed = any(route.table == table and route.oif == link.index for route in view.state.routes)
    return ruled and not held and not routed
