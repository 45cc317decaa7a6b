"""`azure`: InfiniBand HCAs of AKS machines as one resource, rdma/ib, counted by the SR-IOV device plugin.

A machine is virtual, so NCCL cannot see which GPU is near which HCA: without the topology file of the machine type it
pairs them wrongly. UCX stays on eth0, where ranks find each other. mlx5_8 belongs to accelerated networking, no rail.
Microsoft Learn, "Use RDMA on AKS"; Azure/aks-rdma-infiniband.
"""

from __future__ import annotations

from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.clouds.provider import instead, refusals
from trackbed.cluster.stacks.stack import Stack
from trackbed.fabric.plan.plan import Plan

RESOURCE = "rdma/ib"


def _access(plan: Plan) -> Access:
    env = instead(
        ("NCCL_IB_HCA", "^=mlx5_8"),
        ("NCCL_TOPO_FILE", "/opt/microsoft/ndv5-topo.xml"),
        ("UCX_TLS", "tcp"),
        ("UCX_NET_DEVICES", "eth0"),
    )
    return Access(resources=((RESOURCE, len(plan.common.rails)),), env=env)


STACK = Stack(
    name="azure",
    title="Azure: InfiniBand HCAs of ND machines by the SR-IOV device plugin as rdma/ib, NCCL told the topology",
    needs=(
        "rails: the machine type's InfiniBand HCAs (ND H100 v5: 8); linkType infiniband",
        "SR-IOV device plugin with resource rdma/ib on the node pool",
        "the topology file in the image, /opt/microsoft/ndv5-topo.xml; for other types write their NCCL_TOPO_FILE",
    ),
    cannot=("addresses, hosts and switches: Azure's", "a rail's own resource: the HCAs are counted together"),
    access=_access,
    refusals=lambda plan: refusals(plan, "infiniband"),
)
