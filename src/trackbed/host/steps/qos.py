"""Step qos: RDMA traffic rides in its class, is marked, slowed by ECN, and its congestion notices go first.

    qos/trust                         the port sorts what arrives by DSCP
    ecn/roce_{np,rp}/enable/PRIORITY  DCQCN: the receiver notifies, the sender slows down
    ecn/roce_np/cnp_dscp              DSCP of notices; cnp_802p_prio, its upper three bits, is the same on layer 2
    tc/1/traffic_class                all RDMA traffic gets the plan's DSCP (times 4, plus ECT(0)), whatever jobs ask

These are the files of NVIDIA's driver (DOCA-OFED); where a driver has none, nothing is set there. What every driver
with DCB takes is asked of it by netlink (IEEE 802.1Qaz, 802.1Qbb; net/dcb/dcbnl.c), whatever made the driver:

    DSCP              the port goes by it; RDMA's has the plan's priority, that of notices its upper bits'
    PFC               on the plan's priority, or on none
    ETS               the plan's priority shares its traffic class with no other: what pauses one stops all in its class
    default_roce_tos  rdma_cm (configfs, drivers/infiniband/core/cma_configfs.c) gives new connections the traffic class

They hold until the next boot, then Trackbed's boot unit writes them again. Without them PFC and ECN on the leaf protect
a class that the traffic is not in. (Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015;
RFC 3168, 2474.)
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.host.kinds import attribute, rdma_tos
from trackbed.host.kinds.dcb import DcbDscp, DcbEts, DcbPfc
from trackbed.host.setting import Setting
from trackbed.host.steps import boot

STEP = "qos"
IS_RENDERED = False
HAS_FILES = True

ECT0 = 2
"""ECN-capable transport (0): the low two bits of the traffic class (RFC 3168)."""


def list_settings(node: NodePlan) -> Iterator[Setting]:
    """Yield the attributes of each port, then the files that restore them (and the VFs) at every boot."""
    wanted = [
        (port, *reasoned_want)
        for port in (node.ports if node.common.link_type == "ethernet" else ())
        for reasoned_want in (*_list_attributes(node, port), *_list_dcb_wants(node, port))
    ]
    for port, want, why in wanted:
        yield Setting(STEP, want, port.rail, why)
    for file in boot.build_files(node, [want for _, want, _ in wanted]):
        yield Setting(STEP, file, None, "VFs and QoS are set again at every boot")


def compute_traffic_class(node: NodePlan) -> int:
    """Return the traffic class (IPv4: TOS) of RDMA packets: DSCP 26 with ECN gives 106."""
    return node.common.qos.dscp << 2 | (ECT0 if node.common.qos.ecn else 0)


def _list_attributes(node: NodePlan, port: PortPlan) -> Iterator[tuple[object, str]]:
    qos, base = node.common.qos, "/sys/class/net/{netdev}"
    files = {f"{base}/qos/trust": "dscp"}
    files |= {f"{base}/ecn/{side}/enable/{qos.priority}": "1" if qos.ecn else "0" for side in ("roce_np", "roce_rp")}
    files[f"{base}/ecn/roce_np/cnp_dscp"] = str(qos.cnp_dscp)
    files[f"{base}/ecn/roce_np/cnp_802p_prio"] = str(_get_default_priority(qos.cnp_dscp))
    files[f"{base}/device/infiniband/{{rdma}}/tc/1/traffic_class"] = str(compute_traffic_class(node))
    for path, value in files.items():
        yield attribute.Want(port.netdev, path, value), "RDMA traffic is in the class that the leaf protects"


def _list_dcb_wants(node: NodePlan, port: PortPlan) -> Iterator[tuple[object, str]]:
    qos, name = node.common.qos, port.netdev
    pairs = {qos.cnp_dscp: _get_default_priority(qos.cnp_dscp)} | {qos.dscp: qos.priority}
    yield DcbDscp(name, tuple(sorted(pairs.items()))), "the port sorts RDMA traffic as the leaf does"
    pause = (qos.priority,) if qos.pfc else ()
    yield DcbPfc(name, pause), "the port pauses the priority that the leaf pauses, and no other"
    if _get_default_priority(qos.cnp_dscp) != qos.priority:
        ets = DcbEts(name, qos.priority, _get_default_priority(qos.cnp_dscp))
        yield ets, "pauses of RDMA traffic stop no other traffic"
    yield (
        rdma_tos.Want(name, compute_traffic_class(node)),
        "connections by rdma_cm are in the class that the leaf protects",
    )


def _get_default_priority(dscp: int) -> int:
    """Return the default priority of a DSCP: its upper three bits (RFC 2474, class selectors)."""
    return dscp >> 3
