"""Step drivers: the ports' driver, its modules, the GPU's driver beside it.

modules  who has the port, which modules there are for this kernel and from which tree, what Secure Boot refused
gpu      the NVIDIA driver: its library, its fabric manager, the way by which a NIC reaches GPU memory
faults   what happened since: a driver that was loaded anew, accesses that the IOMMU refused
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.doctor import hardware
from trackbed.doctor.checks.drivers import faults, gpu, modules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView

READS = hardware.READS | modules.READS | gpu.READS | faults.READS


def check(view: NodeView) -> Iterator[Finding]:
    """Judge the drivers; nothing to say where the host is not this machine's own."""
    host = view.host
    if host is None:
        return
    for part in (modules, gpu, faults):
        yield from part.check(view, host)
