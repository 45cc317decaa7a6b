"""Step bios: what the server's firmware sets up for the kernel: PCI functions, memory windows, links, placement.

    presence   ports and GPUs that are not on the bus; ACPI tables and memory windows that the firmware left out
    pcie       links that trained with fewer lanes or slower, their errors, slots without enough power
    placement  NUMA nodes, NICs near their GPU, ACS between the two
    power      CPU governor; kernel lockdown, which Secure Boot turns on

Checks of the physical PCI tree are skipped in a virtual machine, whose PCI tree is emulated.
"""

from collections.abc import Iterator

from trackbed.doctor import hardware
from trackbed.doctor.checks.bios import pcie, placement, power, presence
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView

READS = hardware.READS | presence.READS | pcie.READS | placement.READS | power.READS
"""What these checks read of a host."""


def check(view: NodeView) -> Iterator[Finding]:
    """Check what the server's firmware set up; skipped where the node shares its host."""
    host = view.host
    if host is None:
        return
    for module in (presence, pcie, placement, power):
        yield from module.check(view, host)
