"""`gke`: RDMA NICs of A3 Ultra and A4 machines as further networks of the pod, NCCL by Google's gIB plugin.

GKE attaches what the annotation lists; each network is a Network object of the cluster, rdma-0 to rdma-7 unless the
Fabric names them otherwise. All NCCL settings come with gIB, from a script that the job must source; general ones would
contradict it. Google Cloud, "Create a custom AI-optimized GKE cluster".
"""

from __future__ import annotations

import json

from trackbed.cluster.stacks.access import Access, HostPath
from trackbed.cluster.stacks.clouds.provider import LEFT_OUT, refusals
from trackbed.cluster.stacks.stack import Stack
from trackbed.fabric.plan.plan import Plan, RailPlan

FIRST_RAIL = 2
"""Interface eth0 is the pod's own, eth1 is left to the machine's second gVNIC, eth2 is rail 0."""


def _access(plan: Plan) -> Access:
    return Access(
        annotations=(
            ("networking.gke.io/default-interface", "eth0"),
            ("networking.gke.io/interfaces", json.dumps(_interfaces(plan), separators=(",", ":"))),
        ),
        host_paths=(HostPath("gib", "/home/kubernetes/bin/gib", "/usr/local/gib"),),
        env=LEFT_OUT,
    )


def _interfaces(plan: Plan) -> list[dict[str, str]]:
    rails = [{"interfaceName": f"eth{FIRST_RAIL + rail.rail}", "network": _network(rail)} for rail in plan.common.rails]
    return [{"interfaceName": "eth0", "network": "default"}, *rails]


def _network(rail: RailPlan) -> str:
    """Google's own name for a rail's network, unless the Fabric gives another than the default."""
    return f"rdma-{rail.rail}" if rail.network == f"rail{rail.rail}" else rail.network


STACK = Stack(
    name="gke",
    title="GKE: the RDMA NICs of A3 Ultra and A4 machines as networks of the pod, NCCL by Google's gIB plugin",
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
    access=_access,
    refusals=lambda plan: refusals(plan, "ethernet"),
)
