"""Step qos: RDMA traffic rides in its class, is marked, slowed by ECN, and its congestion notices go first.

    qos/trust                         the port sorts what arrives by DSCP
    ecn/roce_{np,rp}/enable/PRIORITY  DCQCN: the receiver notifies, the sender slows down
    ecn/roce_np/cnp_dscp              DSCP of notices; cnp_802p_prio, its upper three bits, is the same on layer 2
    tc/1/traffic_class                all RDMA traffic gets the plan's DSCP (times 4, plus ECT(0)), whatever jobs ask

These are the files of NVIDIA's driver (DOCA-OFED); where a driver has none, nothing is set here. They hold until the
next boot, then Trackbed's boot unit writes them again. Without them PFC and ECN on the leaf protect a class that the
traffic is not in. (Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015; RFC 3168, 2474.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.chain import boot
from trackbed.chain.setting import Attribute, Setting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.plan.plan import NodePlan, PortPlan

STEP = "qos"

ECT0 = 2
"""ECN-capable transport (0): the low two bits of the traffic class (RFC 3168)."""


def settings(node: NodePlan) -> Iterator[Setting]:
    """The attributes of each port, then what sets them (and the VFs) again at the next boot."""
    wanted = [(port, want) for port in node.ports for want in _attributes(node, port)]
    for port, want in wanted:
        yield Setting(STEP, want, port.rail, "RDMA traffic is in the class that the leaf protects")
    for file in boot.files(node, [want for _, want in wanted]):
        yield Setting(STEP, file, None, "VFs and QoS are set again at every boot")


def traffic_class(node: NodePlan) -> int:
    """The traffic class (IPv4: TOS) of RDMA packets: DSCP 26 with ECN gives 106."""
    return node.common.qos.dscp << 2 | (ECT0 if node.common.qos.ecn else 0)


def _attributes(node: NodePlan, port: PortPlan) -> Iterator[Attribute]:
    if node.common.link_type != "ethernet":
        return
    qos, base = node.common.qos, "/sys/class/net/{netdev}"
    yield Attribute(port.netdev, f"{base}/qos/trust", "dscp")
    for side in ("roce_np", "roce_rp"):
        yield Attribute(port.netdev, f"{base}/ecn/{side}/enable/{qos.priority}", "1" if qos.ecn else "0")
    yield Attribute(port.netdev, f"{base}/ecn/roce_np/cnp_dscp", str(qos.cnp_dscp))
    yield Attribute(port.netdev, f"{base}/ecn/roce_np/cnp_802p_prio", str(qos.cnp_dscp >> 3))
    tclass = f"{base}/device/infiniband/{{rdma}}/tc/1/traffic_class"
    yield Attribute(port.netdev, tclass, str(traffic_class(node)))
