"""Step cmdline: the kernel is started with the arguments that the plan needs.

    intel_iommu=on iommu=pt     VFs have an IOMMU and the host's own RDMA bypasses it (AMD: iommu=pt, Arm:
                                iommu.passthrough=1): wanted where the Fabric says so, for virtual machines
    default_hugepagesz=1G hugepagesz=1G hugepages=16     huge pages, reserved before memory is fragmented
    isolcpus=4-63 nohz_full=4-63 rcu_nocbs=4-63          CPUs reserved for jobs
    pci=realloc ...             further arguments from the Fabric

(Documentation/admin-guide/kernel-parameters.txt.) Arguments of the machine's owner are kept. Without the IOMMU, a VF
cannot be assigned to a virtual machine; VFs in containers need none. Without pass-through (iommu=pt), every RDMA buffer
of the host is mapped, which costs bandwidth.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.plan.plan import KernelPlan, NodePlan
from trackbed.host.kinds import huge_pages, kernel_arguments
from trackbed.host.kinds.huge_pages import SIZES
from trackbed.host.setting import Setting

STEP = "cmdline"


def iter_settings(node: NodePlan) -> Iterator[Setting]:
    """Yield the arguments and the huge pages that they reserve; nothing if the plan has none."""
    kernel = node.common.kernel
    if kernel is None:
        return
    why = (
        "VFs in virtual machines need the IOMMU, jobs their pages and CPUs"
        if kernel.iommu
        else "the Fabric asks for them"
    )
    yield Setting(STEP, kernel_arguments.Want(tuple(_render_groups(kernel)), kernel.iommu), None, why)
    for size_kib, count in kernel.hugepages:
        yield Setting(STEP, huge_pages.Want(size_kib, count), None, "the Fabric asks for so many huge pages")


def _render_groups(kernel: KernelPlan) -> Iterator[str]:
    if kernel.hugepages:
        yield f"default_hugepagesz={SIZES[kernel.hugepages[0][0]]}"
    for size_kib, count in kernel.hugepages:
        yield f"hugepagesz={SIZES[size_kib]} hugepages={count}"
    if kernel.isolated_cpus:
        yield from (f"{name}={kernel.isolated_cpus}" for name in ("isolcpus", "nohz_full", "rcu_nocbs"))
    yield from kernel.arguments
