"""`oci`: VFs of OKE machines' RDMA NICs, one resource and one network, asked for as often as there are NICs.

Another count than the shape has leaves the pod pending, or with fewer rails. Oracle's RoCE class has DSCP 10, so NCCL
needs traffic class 41 (10 << 2, and ECN's lowest bit). A fixed GID index 3 holds for host networking only; in pods NCCL
finds it. Oracle Cloud, "Running RDMA (remote direct memory access) GPU workloads on OKE".
"""

from __future__ import annotations

from trackbed.cluster.stacks.access import Access, HostPath, PodNetwork
from trackbed.cluster.stacks.clouds.provider import instead, refusals
from trackbed.cluster.stacks.stack import Stack
from trackbed.fabric.plan.plan import Plan

NETWORK = "rdma-vf"
RESOURCE = "nvidia.com/rdma-vf"
TRAFFIC_CLASS = "41"


def _access(plan: Plan) -> Access:
    return Access(
        networks=tuple(PodNetwork("default", NETWORK, f"rail{rail.rail}") for rail in plan.common.rails),
        resources=((RESOURCE, len(plan.common.rails)),),
        host_paths=(HostPath("infiniband", "/dev/infiniband", "/dev/infiniband", read_only=False),),
        privileged=True,
        env=instead(
            ("NCCL_IB_TC", TRAFFIC_CLASS),
            ("NCCL_IB_QPS_PER_CONNECTION", "4"),
            ("NCCL_IB_SPLIT_DATA_ON_QPS", "0"),
            ("UCX_IB_TRAFFIC_CLASS", TRAFFIC_CLASS),
        ),
    )


STACK = Stack(
    name="oci",
    title="OCI: VFs of the machine's RDMA NICs by SR-IOV device plugin and Multus, one network many times",
    needs=(
        "rails: the shape's RDMA NICs (16; 8 on shapes with single-port NICs)",
        "Oracle's SR-IOV device plugin with resource nvidia.com/rdma-vf",
        "its network rdma-vf in namespace default",
        "NCCL_IB_HCA with the exact list of the shape, from Oracle's table, written in the job",
    ),
    cannot=("addresses, hosts and switches: Oracle's", "a rail's own resource: the VFs are counted together"),
    access=_access,
    refusals=lambda plan: refusals(plan, "ethernet"),
)
