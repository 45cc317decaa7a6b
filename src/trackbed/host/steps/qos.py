"""Step qos: RDMA traffic has its traffic class and DSCP, is slowed by ECN, and congestion notices are sent first.

    qos/trust                         the port classifies received packets by DSCP
    ecn/roce_{np,rp}/enable/PRIORITY  DCQCN: the receiver notifies, the sender slows down
    ecn/roce_np/cnp_dscp              DSCP of notices; cnp_802p_prio, its upper three bits, is the same on layer 2
    tc/1/traffic_class                all RDMA traffic has the plan's DSCP (times 4, plus ECT(0)), whatever jobs set

These are files of NVIDIA's driver (DOCA-OFED); other drivers lack them and are skipped. All drivers with DCB are set by
netlink (IEEE 802.1Qaz, 802.1Qbb; net/dcb/dcbnl.c):

    DSCP              the port trusts it; RDMA's has the plan's priority, that of notices the priority of its upper bits
    PFC               on the plan's priority, or on no priority
    ETS               the plan's priority has a traffic class of its own, because a pause stops a whole class
    default_roce_tos  the traffic class of new connections by rdma_cm (drivers/infiniband/core/cma_configfs.c)

They are lost at a boot, and Trackbed's boot unit writes them again. Without them, PFC and ECN on the leaf protect a
class without RDMA traffic. (Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015; RFC 3168,
2474.)
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.host.kinds import attribute, rdma_tos
from trackbed.host.kinds.dcb_wants import DcbDscp, DcbEts, DcbPfc
from trackbed.host.setting import Setting
from trackbed.host.steps import boot

STEP = "qos"
HAS_FILES = True


def iter_settings(node: NodePlan) -> Iterator[Setting]:
    """Yield the settings of each port, then the files that restore them (and the VFs) at every boot."""
    wanted = [
        (port, *reasoned_want)
        for port in (node.ports if node.common.link_type == "ethernet" else ())
        for reasoned_want in (*_iter_attribute_wants(node, port), *_iter_dcb_wants(node, port))
    ]
    for port, want, why in wanted:
        yield Setting(STEP, want, port.rail, why)
    for file in boot.build_files(node, [want for _, want, _ in wanted]):
        yield Setting(STEP, file, None, "VFs and QoS are set again at every boot")


def compute_traffic_class(node: NodePlan) -> int:
    """Return the traffic class (IPv4: TOS) of RDMA packets: DSCP 26 with ECN gives 106."""
    return node.common.qos.traffic_class


def _iter_attribute_wants(node: NodePlan, port: PortPlan) -> Iterator[tuple[object, str]]:
    qos, base = node.common.qos, "/sys/class/net/{netdev}"
    files = {f"{base}/qos/trust": "dscp"}
    files |= {f"{base}/ecn/{side}/enable/{qos.priority}": "1" if qos.ecn else "0" for side in ("roce_np", "roce_rp")}
    files[f"{base}/ecn/roce_np/cnp_dscp"] = str(qos.cnp_dscp)
    files[f"{base}/ecn/roce_np/cnp_802p_prio"] = str(_get_default_priority(qos.cnp_dscp))
    files[f"{base}/device/infiniband/{{rdma}}/tc/1/traffic_class"] = str(compute_traffic_class(node))
    for path, value in files.items():
        yield attribute.Want(port.netdev, path, value), "RDMA traffic is in the class that the leaf protects"


def _iter_dcb_wants(node: NodePlan, port: PortPlan) -> Iterator[tuple[object, str]]:
    """Yield ETS, PFC, then DSCP: bnxt refuses PFC before ETS (bnxt_hwrm_queue_pfc_cfg, bnxt_dcb.c)."""
    qos, name = node.common.qos, port.netdev
    notices = _get_default_priority(qos.cnp_dscp)
    yield DcbEts(name, qos.priority, notices), "pauses of RDMA traffic stop no other traffic"
    pause = (qos.priority,) if qos.pfc else ()
    yield DcbPfc(name, pause), "the port pauses the priority that the leaf pauses, and no other"
    pairs = tuple(sorted(({qos.cnp_dscp: notices} | {qos.dscp: qos.priority}).items()))
    yield DcbDscp(name, pairs, qos.priority), "the port sorts RDMA traffic as the leaf does"
    yield (
        rdma_tos.Want(name, compute_traffic_class(node)),
        "connections by rdma_cm are in the class that the leaf protects",
    )


def _get_default_priority(dscp: int) -> int:
    """Return the default priority of a DSCP: its upper three bits (RFC 2474, class selectors)."""
    return dscp >> 3
