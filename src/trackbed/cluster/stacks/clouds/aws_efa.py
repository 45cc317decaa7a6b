"""`aws-efa`: EFA devices of EC2 machines, counted by AWS's device plugin; the pod keeps its only interface, eth0.

EFA speaks libfabric's SRD through aws-ofi-nccl, no verbs that NCCL's own plugin could use, so no NCCL_IB_* has any
meaning. FI_PROVIDER and FI_EFA_USE_DEVICE_RDMA are for old stacks only and are not set. Without huge pages libfabric
falls back to small ones, or fails where a limit is set. AWS EKS user guide, "Run machine learning training with EFA".
"""

from __future__ import annotations

from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.clouds.provider import LEFT_OUT, refusals
from trackbed.cluster.stacks.stack import Stack
from trackbed.fabric.plan.plan import Plan

RESOURCE = "vpc.amazonaws.com/efa"


def _access(plan: Plan) -> Access:
    return Access(
        resources=((RESOURCE, len(plan.common.rails)),), hugepages=(("hugepages-2Mi", "5120Mi"),), env=LEFT_OUT
    )


STACK = Stack(
    name="aws-efa",
    title="AWS: EFA devices by the EFA device plugin, libfabric in the pod, no further interface",
    needs=(
        "rails: the machine type's EFA devices (p4d 4, p5 32, p6e-gb200 4)",
        "aws-efa-k8s-device-plugin, huge pages of 2 MiB on the nodes",
        "libfabric and aws-ofi-nccl in the image",
    ),
    cannot=("addresses, hosts and switches: AWS's", "choosing which EFA device a pod gets"),
    access=_access,
    refusals=lambda plan: refusals(plan, "ethernet"),
)
