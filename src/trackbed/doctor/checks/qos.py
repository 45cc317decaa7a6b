"""Step qos: RDMA traffic is in the class that the leaf protects, on the way in and out, and pauses stop nothing else.

bridging   IEEE 802.1Qaz and 802.1Qbb, which every driver with DCB tells by netlink
marking    what NVIDIA's driver says in files: trust, DCQCN, traffic class; what rdma_cm says in configfs
counters   ethtool -S of mlx5: what was dropped or paused since the driver was loaded
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.doctor.checks import qos_bridging, qos_counters, qos_marking

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView

READS = qos_bridging.READS | qos_marking.READS | qos_counters.READS
"""What these checks want to see of a host."""


def check(view: NodeView) -> Iterator[Finding]:
    """Judge each Ethernet port; InfiniBand has service levels instead, which its subnet manager sets."""
    if view.host is None or view.node.common.link_type != "ethernet":
        return
    for part in (qos_bridging, qos_marking, qos_counters):
        yield from part.check(view, view.host)
