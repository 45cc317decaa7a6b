"""Step bios: what the firmware of the server hands to the kernel: its PCI functions, their room, links and places.

    presence   ports and GPUs that are not on the bus; tables and memory windows that the firmware left out
    pcie       links that trained with fewer lanes or slower, errors on them, slots without enough power
    placement  NUMA nodes, NICs beside their GPU, ACS between the two
    power      CPU governor; kernel lockdown, which Secure Boot turns on

What makes no sense in a virtual machine (its PCI tree is somebody's drawing) is not judged there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.doctor import hardware
from trackbed.doctor.checks.bios import pcie, placement, power, presence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView

READS = hardware.READS | presence.READS | pcie.READS | placement.READS | power.READS


def check(view: NodeView) -> Iterator[Finding]:
    """Judge what the firmware of the server gave; nothing to say where the host is not this machine's own."""
    host = view.host
    if host is None:
        return
    for part in (presence, pcie, placement, power):
        yield from part.check(view, host)
