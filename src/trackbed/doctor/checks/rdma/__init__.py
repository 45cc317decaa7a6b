"""Step rdma: the kernel's RDMA stack is loaded, and each port has a usable device.

    stack       modules, device nodes, and the namespace mode of devices (rdma-system(8))
    devices     one device for each port, and none lost
    ports       state, rate, path MTU and GIDs of each device

The checks in `ports` depend on the port's addresses and cable, so the catalogue lists their faults after those.
"""

from collections.abc import Iterator

from trackbed.doctor.checks.rdma import devices, ports, stack
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView

READS = stack.READS | devices.READS | ports.READS
"""What these checks read of a host."""


def check(view: NodeView) -> Iterator[Finding]:
    """Check the host's stack, then every port."""
    for module in (stack, devices, ports):
        yield from module.check(view)
