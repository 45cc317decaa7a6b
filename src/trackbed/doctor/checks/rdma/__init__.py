"""Step rdma: the kernel's RDMA stack is there, each port has a device in it, and the device can be used.

    stack       modules, device nodes, and which namespace sees a device (rdma-system(8))
    devices     one device for each port, and none lost
    ports       what the device makes of cable and addresses: state, rate, path MTU, GIDs

What is in `ports` follows from the port's addresses and cable, so its faults stand behind those in the catalogue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.doctor.checks.rdma import devices, ports, stack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView

READS = stack.READS | devices.READS | ports.READS
"""What these checks want to see of a host."""


def check(view: NodeView) -> Iterator[Finding]:
    """Judge the host's stack, then every port."""
    for part in (stack, devices, ports):
        yield from part.check(view)
