"""Step cmdline: the kernel was started with the planned arguments, and they took effect.

The IOMMU is judged by its effect, because the default without an argument differs between kernels.
"""

import re
from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.finding import Finding
from trackbed.doctor.hardware import (
    DEVICES,
    find_log_line,
    is_x86,
    iter_pci_functions,
    read_kernel_log,
    read_pci_attribute,
    read_vf_memory,
)
from trackbed.doctor.view import NodeView
from trackbed.host.kinds import kernel_arguments
from trackbed.host.kinds.arguments import is_fulfilled, split_cmdline
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.steps import cmdline as planned

CMDLINE = "/proc/cmdline"
GROUPS = "/sys/kernel/iommu_groups"
ACPI = "/sys/firmware/acpi/tables"
PAGES = "/sys/kernel/mm/hugepages"
NODES = "/sys/devices/system/node"
ISOLATED = "/sys/devices/system/cpu/isolated"
READS = Wanted(
    files=(
        CMDLINE,
        f"{DEVICES}/{{pci}}/iommu_group/type",
        f"{DEVICES}/{{pci}}/numa_node",
        f"{PAGES}/*/nr_hugepages",
        f"{NODES}/node*/hugepages/*/nr_hugepages",
        ISOLATED,
    ),
    folders=(GROUPS, ACPI),
)

_ALLOCATION_FAILED = r"HugeTLB: allocating \d+ of page size \S+ \S+ failed"


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check the kernel's arguments and their effects."""
    yield from check_arguments(view, host)
    yield from check_iommu(view, host)
    yield from check_realloc(view, host)
    yield from check_hugepages(view, host)
    yield from check_isolated_cpus(view, host)


def check_arguments(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that the running kernel was started with all planned arguments."""
    wants = [setting.want for setting in planned.iter_settings(view.node)]
    groups = [group for want in wants if isinstance(want, kernel_arguments.Want) for group in want.groups]
    if not groups:
        return
    line = host.read_text(CMDLINE)
    if line is None:
        yield build_finding("cmdline-not-applied", view.node, None, ok=None, evidence=f"{CMDLINE} cannot be read")
        return
    lacking = [group for group in groups if not is_fulfilled(group, split_cmdline(line))]
    evidence = f"{CMDLINE} lacks {' '.join(lacking)}" if lacking else f"{CMDLINE} has {' '.join(groups)}"
    yield build_finding("cmdline-not-applied", view.node, None, ok=not lacking, evidence=evidence)


def check_iommu(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that the IOMMU is on and in passthrough mode for the ports.

    Without a DMAR or IVRS table the IOMMU cannot be on; step bios reports the missing table.
    """
    kernel, tables = view.node.common.kernel, {"DMAR", "IVRS"}.intersection(host.folders.get(ACPI, ()))
    if kernel is None or not kernel.iommu:
        return
    groups = host.folders.get(GROUPS)
    if tables or not is_x86(host):
        ok = None if groups is None else bool(groups)
        evidence = f"{GROUPS} was not listed" if groups is None else f"{len(groups)} groups in {GROUPS}"
        yield build_finding("cmdline-iommu-off", view.node, None, ok=ok, evidence=evidence)
    for port, pci in iter_pci_functions(view, host):
        domain_type = read_pci_attribute(host, pci, "iommu_group/type")
        if domain_type is not None:
            evidence = f"{DEVICES}/{pci}/iommu_group/type is {domain_type}"
            ok = domain_type == "identity"
            yield build_finding("cmdline-iommu-translated", view.node, port, ok=ok, evidence=evidence)


def check_realloc(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check for pci=realloc on ports whose VFs have no memory; other ports do not need it."""
    line = host.read_text(CMDLINE)
    if not view.node.common.vfs or line is None:
        return
    options = {option for word in split_cmdline(line) if word.startswith("pci=") for option in word[4:].split(",")}
    for port, pci in iter_pci_functions(view, host):
        bars = read_vf_memory(host, pci)
        if bars and not any(bars):
            ok = bool(options & {"realloc", "realloc=on"})
            evidence = f"{pci} has no memory for VFs, {CMDLINE} has {'' if ok else 'no '}pci=realloc"
            yield build_finding("cmdline-pci-realloc-missing", view.node, port, ok=ok, evidence=evidence)


def check_hugepages(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that the kernel could allocate all planned huge pages."""
    kernel = view.node.common.kernel
    for size_kib, planned_count in kernel.hugepages if kernel else ():
        path = f"{PAGES}/hugepages-{size_kib}kB/nr_hugepages"
        count = host.read_number(path)
        if count is None:
            yield build_finding("cmdline-hugepages-short", view.node, None, ok=None, evidence=f"{path} does not exist")
            continue
        ok = count >= planned_count
        line = "" if ok else find_log_line(read_kernel_log(host) or "", _ALLOCATION_FAILED)
        evidence = "; ".join(filter(None, (f"{path}: {count}, planned {planned_count}", line)))
        yield build_finding("cmdline-hugepages-short", view.node, None, ok=ok, evidence=evidence)
        if ok:
            yield from _check_numa_spread(view, host, size_kib, planned_count)


def _check_numa_spread(view: NodeView, host: Snapshot, size_kib: int, page_count: int) -> Iterator[Finding]:
    """Check that each NUMA node with ports has its share of huge pages, which the kernel spreads evenly by default."""
    pattern = f"{NODES}/node*/hugepages/hugepages-{size_kib}kB/nr_hugepages"
    pages = {int(re.sub(r"\D", "", path.split("/")[5])): host.read_number(path) or 0 for path in host.glob(pattern)}
    used = {host.read_number(f"{DEVICES}/{pci}/numa_node") for _, pci in iter_pci_functions(view, host)}
    if len(pages) < 2:  # noqa: PLR2004 - with one NUMA node there is nothing to spread
        return
    short = [node for node in pages if node in used and pages[node] < page_count // len(pages)]
    listing = ", ".join(f"node {node}: {pages[node]}" for node in sorted(pages))
    evidence = f"{size_kib} KiB pages on {listing}"
    yield build_finding("cmdline-hugepages-one-node", view.node, None, ok=not short, evidence=evidence)


def check_isolated_cpus(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that only planned CPUs are isolated."""
    isolated, kernel = host.read_text(ISOLATED), view.node.common.kernel
    if isolated is None:
        return
    planned_cpus = (kernel.isolated_cpus if kernel else None) or ""
    extra = _parse_cpu_list(isolated) - _parse_cpu_list(planned_cpus)
    evidence = f"{ISOLATED} is {isolated or 'empty'}, planned {planned_cpus or 'none'}"
    yield build_finding("cmdline-isolcpus-under-pods", view.node, None, ok=not extra, evidence=evidence)


_MAX_LIST_CHARACTERS = 4096
"""Longest list of CPUs: sysfs shows a page at most. A number of a CPU has at most five digits, as in text_syntax."""


def _parse_cpu_list(listing: str) -> set[int]:
    """Parse a CPU list such as `4-63,68` (Documentation/admin-guide/cputopology.rst)."""
    cpus: set[int] = set()
    for first, last in re.findall(r"(\d{1,5})(?:-(\d{1,5}))?", listing[:_MAX_LIST_CHARACTERS]):
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus
