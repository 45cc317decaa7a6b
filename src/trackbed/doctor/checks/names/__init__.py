"""Step names: every port has its planned name, and keeps it.

ports       the planned name is on the planned hardware (systemd.link(5); IFNAMSIZ of linux/if.h)
rdma        RDMA devices are called as planned, and rails are in one order on all nodes
sources     one program gives the name
managers    no other program configures the port by its name (cloud-init, NetworkManager)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.doctor.checks.names import managers, ports, rdma, sources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView

READS = ports.READS | rdma.READS | sources.READS | managers.READS
"""What these checks want to see of a host."""


def check(view: NodeView) -> Iterator[Finding]:
    """Judge each port. That names fit the kernel is refused before there is a plan (spec.check)."""
    yield from ports.check(view)
    if view.host is None:
        return
    for part in (sources, rdma, managers):
        yield from part.check(view)
