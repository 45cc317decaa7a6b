"""Step drivers: the ports' driver and its modules, and the GPU's driver.

modules  the driver bound to a port; modules present for this kernel, from one tree, accepted by Secure Boot
gpu      the NVIDIA driver: its library, its fabric manager, and the path from NIC to GPU memory
faults   events since boot: a reloaded driver, accesses that the IOMMU refused
"""

from collections.abc import Iterator

from trackbed.doctor import hardware
from trackbed.doctor.checks.drivers import faults, gpu, modules
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView

READS = hardware.READS | modules.READS | gpu.READS | faults.READS
"""What these checks read of a host."""


def check(view: NodeView) -> Iterator[Finding]:
    """Check the drivers; skipped where the node shares its host."""
    host = view.host
    if host is None:
        return
    for module in (modules, gpu, faults):
        yield from module.check(view, host)
