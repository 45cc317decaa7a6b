"""Step cmdline: the kernel was started as planned, and what its arguments ask for came about.

Of the IOMMU the effect is judged, not the argument: kernels differ in what they do without one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trackbed.doctor import hardware
from trackbed.doctor.catalogue import judge
from trackbed.doctor.hardware import DEVICES, find_log_line, is_x86, iter_functions, read_attribute, read_kernel_log
from trackbed.host.kinds.arguments import fulfilled, split
from trackbed.host.setting import KernelArguments
from trackbed.host.snapshot.snapshot import Wanted
from trackbed.host.steps import cmdline as planned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.host.snapshot.snapshot import Snapshot

CMDLINE = "/proc/cmdline"
GROUPS = "/sys/kernel/iommu_groups"
ACPI = "/sys/firmware/acpi/tables"
PAGES = "/sys/kernel/mm/hugepages"
NODES = "/sys/devices/system/node"
ISOLATED = "/sys/devices/system/cpu/isolated"
READS = hardware.READS | Wanted(
    files=(
        CMDLINE,
        f"{DEVICES}/{{pci}}/iommu_group/type",
        f"{DEVICES}/{{pci}}/resource",
        f"{DEVICES}/{{pci}}/sriov_totalvfs",
        f"{DEVICES}/{{pci}}/numa_node",
        f"{PAGES}/*/nr_hugepages",
        f"{NODES}/node*/hugepages/*/nr_hugepages",
        ISOLATED,
    ),
    folders=(GROUPS, ACPI),
)

_VF_BARS = slice(7, 13)
_SHORT = r"HugeTLB: allocating \d+ of page size \S+ \S+ failed"


def check(view: NodeView) -> Iterator[Finding]:
    """Judge arguments and their effects; nothing to say where the host is not this machine's own."""
    host = view.host
    if host is None:
        return
    yield from _arguments(view, host)
    yield from _iommu(view, host)
    yield from _realloc(view, host)
    yield from _pages(view, host)
    yield from _isolated(view, host)


def _arguments(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    wants = [setting.want for setting in planned.settings(view.node)]
    groups = [group for want in wants if isinstance(want, KernelArguments) for group in want.groups]
    if not groups:
        return
    line = host.text(CMDLINE)
    if line is None:
        yield judge("cmdline-not-applied", view.node, None, ok=None, evidence=f"{CMDLINE} cannot be read")
        return
    lacking = [group for group in groups if not fulfilled(group, split(line))]
    evidence = f"{CMDLINE} lacks {' '.join(lacking)}" if lacking else f"{CMDLINE} has {' '.join(groups)}"
    yield judge("cmdline-not-applied", view.node, None, ok=not lacking, evidence=evidence)


def _iommu(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Without DMAR or IVRS the firmware is to blame (step bios)."""
    kernel, tables = view.node.common.kernel, {"DMAR", "IVRS"}.intersection(host.folders.get(ACPI, ()))
    if kernel is None or not kernel.iommu:
        return
    groups = len(host.folders.get(GROUPS, ()))
    if tables or not is_x86(host):
        evidence = f"{groups} groups in {GROUPS}"
        yield judge("cmdline-iommu-off", view.node, None, ok=groups > 0, evidence=evidence)
    for port, pci in iter_functions(view, host):
        kind = read_attribute(host, pci, "iommu_group/type")
        if kind is not None:
            evidence = f"{DEVICES}/{pci}/iommu_group/type is {kind}"
            yield judge("cmdline-iommu-translated", view.node, port, ok=kind == "identity", evidence=evidence)


def _realloc(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Only where VFs lack memory: on a sound host the argument proves nothing, one way or the other."""
    line = host.text(CMDLINE)
    if not view.node.common.vfs or line is None:
        return
    given = {part for word in split(line) if word.startswith("pci=") for part in word[4:].split(",")}
    for port, pci in iter_functions(view, host):
        bars = (read_attribute(host, pci, "resource") or "").splitlines()[_VF_BARS]
        empty = bars and not any(int(word, 16) for bar in bars for word in bar.split()[:2])
        if empty and host.number(f"{DEVICES}/{pci}/sriov_totalvfs"):
            ok = bool(given & {"realloc", "realloc=on"})
            evidence = f"{pci} has no memory for VFs, {CMDLINE} has {'' if ok else 'no '}pci=realloc"
            yield judge("cmdline-pci-realloc-missing", view.node, port, ok=ok, evidence=evidence)


def _pages(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    kernel = view.node.common.kernel
    for size_kib, count in kernel.hugepages if kernel else ():
        path = f"{PAGES}/hugepages-{size_kib}kB/nr_hugepages"
        have = host.number(path)
        if have is None:
            yield judge("cmdline-hugepages-short", view.node, None, ok=None, evidence=f"{path} is not there")
            continue
        said = find_log_line(read_kernel_log(host) or "", _SHORT) if have < count else ""
        evidence = "; ".join(filter(None, (f"{path}: {have}, planned {count}", said)))
        yield judge("cmdline-hugepages-short", view.node, None, ok=have >= count, evidence=evidence)
        if have >= count:
            yield from _spread(view, host, size_kib, count)


def _spread(view: NodeView, host: Snapshot, size_kib: int, count: int) -> Iterator[Finding]:
    """Whether all NUMA nodes that have ports have pages; the kernel spreads them evenly if nobody says otherwise."""
    pattern = f"{NODES}/node*/hugepages/hugepages-{size_kib}kB/nr_hugepages"
    here = {int(re.sub(r"\D", "", path.split("/")[5])): host.number(path) or 0 for path in host.glob(pattern)}
    used = {int(node) for _, pci in iter_functions(view, host) if (node := read_attribute(host, pci, "numa_node"))}
    if len(here) < 2:  # noqa: PLR2004 - one NUMA node has them all
        return
    few = {node: pages for node, pages in here.items() if node in used and pages < count // len(here)}
    told = ", ".join(f"node {node}: {pages}" for node, pages in sorted(here.items()))
    yield judge("cmdline-hugepages-one-node", view.node, None, ok=not few, evidence=f"{size_kib} KiB pages on {told}")


def _isolated(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    text, kernel = host.text(ISOLATED), view.node.common.kernel
    if text is None:
        return
    planned_cpus = (kernel.isolated_cpus if kernel else None) or ""
    extra = _cpus(text) - _cpus(planned_cpus)
    evidence = f"{ISOLATED} is {text or 'empty'}, planned {planned_cpus or 'none'}"
    yield judge("cmdline-isolcpus-under-pods", view.node, None, ok=not extra, evidence=evidence)


def _cpus(text: str) -> set[int]:
    """The CPUs of a list as 4-63,68 (Documentation/admin-guide/cputopology.rst)."""
    found: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        found.update(range(int(first), int(last or first) + 1))
    return found
