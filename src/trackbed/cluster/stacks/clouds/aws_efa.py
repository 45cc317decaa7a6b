"""`aws-efa`: EFA devices of EC2 instances, counted by AWS's device plugin; eth0 is the pod's only interface.

NCCL uses EFA through aws-ofi-nccl and libfabric (SRD) instead of its verbs transport, so NCCL_IB_* has no effect. Only
old versions need FI_PROVIDER and FI_EFA_USE_DEVICE_RDMA; they are not set. Without huge pages libfabric falls back to
small pages, or fails if memory is limited. Source: AWS EKS user guide, "Run machine learning training with EFA".
"""

from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.clouds.provider import UNSET_VARIABLES, find_refusals
from trackbed.cluster.stacks.stack import Stack
from trackbed.cluster.stacks.traits import Share, Traits, share_always
from trackbed.fabric.plan.plan import Plan

RESOURCE = "vpc.amazonaws.com/efa"


def _build_access(plan: Plan) -> Access:
    return Access(
        resources=((RESOURCE, len(plan.common.rails)),), hugepages=(("hugepages-2Mi", "5120Mi"),), env=UNSET_VARIABLES
    )


STACK = Stack(
    name="aws-efa",
    title="AWS: EFA devices by the EFA device plugin, libfabric in the pod, no further interface",
    traits=Traits(share_always(Share.PORT), "released", "Amazon's product", only_for="AWS"),
    needs=(
        "rails: the machine type's EFA devices (p4d 4, p5 32, p6e-gb200 4)",
        "aws-efa-k8s-device-plugin, huge pages of 2 MiB on the nodes",
        "libfabric and aws-ofi-nccl in the image",
    ),
    cannot=("addresses, hosts and switches: AWS's", "choosing which EFA device a pod gets"),
    access=_build_access,
    refusals=lambda plan: find_refusals(plan, "ethernet"),
)
