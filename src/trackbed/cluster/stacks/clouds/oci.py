"""`oci`: VFs of OKE machines' RDMA NICs: one resource and one network, requested once for each NIC.

The count must be that of the machine's shape: with more the pod stays pending, with fewer it lacks rails. Oracle's RoCE
class has DSCP 10, so NCCL needs traffic class 41 (10 << 2, plus ECT(1)). GID index 3 of Oracle's guide holds only for
host networking; in pods NCCL detects the index. Source: Oracle Cloud, "Running RDMA (remote direct memory access) GPU
workloads on OKE".
"""

from trackbed.cluster.stacks.access import Access, HostPath, PodNetwork
from trackbed.cluster.stacks.clouds.provider import find_refusals, override_variables
from trackbed.cluster.stacks.stack import Stack
from trackbed.cluster.stacks.traits import Share, Traits, share_always
from trackbed.fabric.plan.plan import Plan

NETWORK = "rdma-vf"
RESOURCE = "nvidia.com/rdma-vf"
TRAFFIC_CLASS = "41"


def _build_access(plan: Plan) -> Access:
    return Access(
        networks=tuple(PodNetwork("default", NETWORK, rail.pod_netdev) for rail in plan.common.rails),
        resources=((RESOURCE, len(plan.common.rails)),),
        host_paths=(HostPath("infiniband", "/dev/infiniband", "/dev/infiniband", read_only=False),),
        privileged=True,
        env=override_variables(
            ("NCCL_IB_TC", TRAFFIC_CLASS),
            ("NCCL_IB_QPS_PER_CONNECTION", "4"),
            ("NCCL_IB_SPLIT_DATA_ON_QPS", "0"),
            ("UCX_IB_TRAFFIC_CLASS", TRAFFIC_CLASS),
        ),
    )


STACK = Stack(
    name="oci",
    title="OCI: VFs of the machine's RDMA NICs by SR-IOV device plugin and Multus, one network many times",
    traits=Traits(share_always(Share.VF), "released", "Oracle's product", pods=lambda _: 1, only_for="Oracle Cloud"),
    needs=(
        "rails: the shape's RDMA NICs (16; 8 on shapes with single-port NICs)",
        "Oracle's SR-IOV device plugin with resource nvidia.com/rdma-vf",
        "its network rdma-vf in namespace default",
        "NCCL_IB_HCA with the exact list of the shape, from Oracle's table, written in the job",
    ),
    cannot=("addresses, hosts and switches: Oracle's", "a rail's own resource: the VFs are counted together"),
    access=_build_access,
    refusals=lambda plan: find_refusals(plan, "ethernet"),
)
