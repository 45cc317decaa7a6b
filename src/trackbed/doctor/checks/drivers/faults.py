"""Events after a port was set up: a reload of its driver, or DMA that the IOMMU blocked."""

import re
from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.finding import Finding
from trackbed.doctor.hardware import (
    DEVICES,
    describe_log_coverage,
    describe_log_error,
    find_driver,
    find_log_line,
    iter_pci_functions,
    list_accelerators,
    read_kernel_log,
)
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.kernel.netlink.links import Link

READS = Wanted(files=(f"{DEVICES}/{{pci}}/sriov_numvfs",))

_ANY_BLOCKED = r"(?:DMAR: \[|AMD-Vi: Event logged)"
_BLOCKED = (
    r"(?:DMAR: \[[^\]\n]{{0,200}} NO_PASID\] Request device \[{address}\]|"
    r"AMD-Vi: Event logged \[IO_PAGE_FAULT .*device=\S*{address}|"
    r"[0-9a-f]{{4,8}}:{address}: AMD-Vi: Event logged \[IO_PAGE_FAULT )"
)
"""Messages of drivers/iommu/intel/dmar.c and amd/iommu.c; the first has no PCI domain in its address. The address of a
function that it knows, amd_iommu_report_page_fault says first."""


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check each port, and all GPUs together, because a GPU does not belong to a single rail."""
    for port, pci in iter_pci_functions(view, host):
        if port.rail not in view.rails_in_pods and find_driver(host, pci) is not None:
            yield from check_reload(view, host, port, pci)
    log = read_kernel_log(host)
    if log is None:
        yield build_finding("driver-iommu-page-faults", view.node, None, ok=None, evidence=describe_log_error(host))
        return
    for port, pci in iter_pci_functions(view, host):
        line = _find_page_fault(log, pci)
        evidence = line or describe_log_coverage(log)
        yield build_finding("driver-iommu-page-faults", view.node, port, ok=not line, evidence=evidence)
    lines = [line for gpu in list_accelerators(host) if (line := _find_page_fault(log, gpu))]
    if lines:
        yield build_finding("driver-iommu-page-faults", view.node, None, ok=False, evidence=lines[0])


def _find_page_fault(log: str, pci: str) -> str:
    """Return the last log line about a PCI function's DMA that the IOMMU blocked; empty if there is none."""
    address = re.escape(pci.partition(":")[2])
    return find_log_line(log, _BLOCKED.format(address=address)) if re.search(_ANY_BLOCKED, log) else ""


def check_reload(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    """Check that the port's driver was not reloaded since the last apply.

    A reload removes the interface with its addresses and routes, but not the rule. The new interface counts its
    carrier changes from 0; an interface that was only set down keeps its counts. The interface is found by its PCI
    function, because a new interface may not have the planned name yet.
    """
    links = [link for link in view.state.links if link.parent_device == pci]
    link, baseline = next(iter(links), view.find_link(port)), (view.baseline or {}).get(port.netdev)
    if link is None or baseline is None or not port.addresses:
        return
    is_new = link.carrier_up_count + link.carrier_down_count < baseline[0]
    vfs = host.read_number(f"{DEVICES}/{pci}/sriov_numvfs") if view.node.common.vfs else 0
    has_lost = is_new and not vfs and _has_only_rule(view, port, link)
    table = view.node.common.rails[port.rail].table
    loss = f"is new: no address, no route in table {table}, {vfs or 0} VFs; the rule for table {table} remained"
    evidence = f"{link.name} {loss if has_lost else 'has existed since it was set up'}"
    yield build_finding("driver-reload-lost-config", view.node, port, ok=not has_lost, evidence=evidence)


def _has_only_rule(view: NodeView, port: PortPlan, link: Link) -> bool:
    """Return whether the port has its rule but neither its addresses nor its routes."""
    table, planned = view.node.common.rails[port.rail].table, {address.address for address in port.addresses}
    has_rule = any(rule.table == table for rule in view.state.rules)
    has_address = any(address.index == link.index and address.address in planned for address in view.state.addresses)
    has_route = any(route.table == table and route.oif == link.index for route in view.state.routes)
    return has_rule and not has_address and not has_route
