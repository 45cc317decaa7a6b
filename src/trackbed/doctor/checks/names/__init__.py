"""Step names: every port has its planned name, and keeps it.

ports       the planned name is on the planned hardware (systemd.link(5); IFNAMSIZ of linux/if.h)
rdma        RDMA devices have their planned names, and rails are in the same order on all nodes
sources     a single program names the port
managers    no other program configures the port by its name (cloud-init, NetworkManager)
"""

from collections.abc import Iterator

from trackbed.doctor.checks.names import managers, ports, rdma, sources
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView

READS = ports.READS | rdma.READS | sources.READS | managers.READS
"""What these checks read of a host."""


def check(view: NodeView) -> Iterator[Finding]:
    """Check each port's name; names too long for the kernel are refused before planning (fabric.model.check)."""
    yield from ports.check(view)
    if view.host is None:
        return
    for module in (sources, rdma, managers):
        yield from module.check(view)
