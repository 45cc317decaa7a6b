"""`gke`: RDMA NICs of A3 Ultra and A4 machines as additional networks of the pod, NCCL by Google's gIB plugin.

GKE attaches the networks that an annotation lists. Each is a Network object of the cluster, rdma-0 to rdma-7 unless the
Fabric has other names. gIB sets all NCCL variables by a script that the job must source; Trackbed's own would conflict
with it. Source: Google Cloud, "Create a custom AI-optimized GKE cluster".
"""

import json

from trackbed.cluster.stacks.access import Access, HostPath
from trackbed.cluster.stacks.clouds.provider import UNSET_VARIABLES, find_refusals
from trackbed.cluster.stacks.stack import Stack
from trackbed.cluster.stacks.traits import Share, Traits, share_always
from trackbed.fabric.plan.plan import Plan, RailPlan

FIRST_RAIL_INTERFACE = 2
"""Index of rail 0's interface: eth0 is the pod's primary interface, eth1 is reserved for the machine's second gVNIC."""


def _build_access(plan: Plan) -> Access:
    return Access(
        annotations=(
            ("networking.gke.io/default-interface", "eth0"),
            ("networking.gke.io/interfaces", json.dumps(_build_pod_interfaces(plan), separators=(",", ":"))),
        ),
        host_paths=(HostPath("gib", "/home/kubernetes/bin/gib", "/usr/local/gib"),),
        env=UNSET_VARIABLES,
    )


def _build_pod_interfaces(plan: Plan) -> list[dict[str, str]]:
    """Return the value of the annotation networking.gke.io/interfaces: each interface of the pod and its network."""
    rails = [
        {"interfaceName": f"eth{FIRST_RAIL_INTERFACE + rail.rail}", "network": _get_network_name(rail)}
        for rail in plan.common.rails
    ]
    return [{"interfaceName": "eth0", "network": "default"}, *rails]


def _get_network_name(rail: RailPlan) -> str:
    """Return the name of the rail's network: the Fabric's, or Google's if the Fabric has the default."""
    return f"rdma-{rail.rail}" if rail.network == f"rail{rail.rail}" else rail.network


STACK = Stack(
    name="gke",
    title="GKE: the RDMA NICs of A3 Ultra and A4 machines as networks of the pod, NCCL by Google's gIB plugin",
    traits=Traits(share_always(Share.PORT), "released", "Google's product", only_for="Google Cloud"),
    needs=(
        "rails: the machine type's RDMA NICs (A3 Ultra, A4: 8)",
        "a Network and a GKENetworkParamSet for each rail, made with the cluster: rdma-0 ... or names.network",
        "Google's NCCL RDMA installer on the nodes (/home/kubernetes/bin/gib)",
        "in the job: source /usr/local/gib/scripts/set_nccl_env.sh, and /usr/local/gib/lib64 in LD_LIBRARY_PATH",
    ),
    cannot=(
        "addresses, hosts and switches: Google's",
        "TCPX and TCPXO (A3 High, A3 Mega), which run a daemon beside the job",
    ),
    access=_build_access,
    refusals=lambda plan: find_refusals(plan, "ethernet"),
)
