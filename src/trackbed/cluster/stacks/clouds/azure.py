"""`azure`: InfiniBand HCAs of AKS machines as one resource, rdma/ib, counted by the SR-IOV device plugin.

In a virtual machine NCCL cannot detect which HCA is close to which GPU, and pairs them wrongly without the topology
file of the machine type. UCX uses eth0 only, for the exchange between ranks at start-up. mlx5_8 is for accelerated
networking and is not a rail. Sources: Microsoft Learn, "Use RDMA on AKS"; github.com/Azure/aks-rdma-infiniband.
"""

from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.clouds.provider import find_refusals, override_variables
from trackbed.cluster.stacks.stack import Stack
from trackbed.cluster.stacks.traits import Share, Traits, share_always
from trackbed.fabric.plan.plan import Plan

RESOURCE = "rdma/ib"


def _build_access(plan: Plan) -> Access:
    env = override_variables(
        ("NCCL_IB_HCA", "^=mlx5_8"),
        ("NCCL_TOPO_FILE", "/opt/microsoft/ndv5-topo.xml"),
        ("UCX_TLS", "tcp"),
        ("UCX_NET_DEVICES", "eth0"),
    )
    return Access(resources=((RESOURCE, len(plan.common.rails)),), env=env)


STACK = Stack(
    name="azure",
    title="Azure: InfiniBand HCAs of ND machines by the SR-IOV device plugin as rdma/ib, NCCL told the topology",
    traits=Traits(share_always(Share.VF), "released", "Microsoft's product", pods=lambda _: 1, only_for="Azure"),
    needs=(
        "rails: the machine type's InfiniBand HCAs (ND H100 v5: 8); linkType infiniband",
        "SR-IOV device plugin with resource rdma/ib on the node pool",
        "the topology file in the image, /opt/microsoft/ndv5-topo.xml; for other types write their NCCL_TOPO_FILE",
    ),
    cannot=("addresses, hosts and switches: Azure's", "a rail's own resource: the HCAs are counted together"),
    access=_build_access,
    refusals=lambda plan: find_refusals(plan, "infiniband"),
)
