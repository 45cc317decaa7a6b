"""Step qos: RDMA traffic is in the class that the leaf protects, in both directions, and pauses stop no other class.

bridging   IEEE 802.1Qaz and 802.1Qbb, which every driver with DCB reports over netlink
marking    files of NVIDIA's driver (trust, DCQCN, traffic class) and of rdma_cm (configfs)
counters   ethtool -S of mlx5: drops and pauses since the driver was loaded
"""

from collections.abc import Iterator

from trackbed.doctor.checks import qos_bridging, qos_counters, qos_marking
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.host.snapshot.snapshot import Snapshot

READS = qos_bridging.READS | qos_marking.READS | qos_counters.READS


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check each Ethernet port; InfiniBand has service levels instead, which its subnet manager sets."""
    if view.node.common.link_type == "ethernet":
        for module in (qos_bridging, qos_marking, qos_counters):
            yield from module.check(view, host)
