"""Room for a lab's neighbours: the kernel has one table for all namespaces, and a full one looks like a broken fabric.

    routed schemes   a port and its leaf know each other; the same for a pod with an interface of its own
    shared-subnet    a pod knows the pods of its rail on all other nodes; port, pod and gateway know each other, and
                     doctor asks up to PROBED_PEERS other ports
    uplinks          leaf and spine know each other; every node may know the management switch
    IPv6             twice as many: a neighbour's link-local address too (RFC 4861)

Example: 64 nodes x 8 rails, routed, pods with the ports: 2 * 512 + 2 * 16 + 2 * 64 = 1184 neighbours, more than the
kernel's default of 1024 (gc_thresh3). An entry younger than 5 s is never removed for another, so the table must hold
all of them at once. Older ones and multicast groups are (neigh_forced_gc() of net/core/neighbour.c), so what the table
holds before a lab starts takes no room from it.
"""

from collections.abc import Iterable
from socket import AF_INET

from trackbed.fabric.plan.plan import Plan
from trackbed.host.steps.limits import compute_thresh3
from trackbed.kernel.netlink.addresses import FAMILY
from trackbed.kernel.netlink.neighbour_tables import NeighbourTable

PROBED_PEERS = 3


def explain_shortage(plan: Plan, tables: Iterable[NeighbourTable]) -> str:
    """Return why the kernel lacks room for the neighbours of a lab, and what to do; "" if it has room."""
    return "; ".join(filter(None, (_explain_table(table, count_neighbours(plan, table.family)) for table in tables)))


def _explain_table(table: NeighbourTable, needed: int) -> str:
    if needed <= table.size:
        return ""
    version = 4 if table.family == AF_INET else 6
    key = f"net.ipv{version}.neigh.default.gc_thresh"
    size = compute_thresh3(needed)
    return (
        f"this lab brings up to {needed} IPv{version} neighbours, and this machine's kernel has room for {table.size} "
        f"({key}3); working pairs would look broken; raise it as root, in no namespace: "
        f"sysctl -w {key}3={size} {key}2={size // 2}"
    )


def count_neighbours(plan: Plan, family: int) -> int:
    """Return how many neighbours all namespaces of a lab may have at once; 0 for a family without addresses.

    Of two planned versions, doctor and the test of reachability use the first.
    """
    ports = [port for node in plan.nodes for port in node.ports if port.addresses]
    used = [port for port in ports if FAMILY[port.addresses[0].version] == family]
    management = 2 * len(plan.nodes) if family == AF_INET else 0
    if not used:
        return management
    leaves = len({port.leaf for port in used})
    pods_apart = plan.common.pod_mode != "move"
    count = 2 * leaves + 2 * len(used) * (1 + pods_apart)
    if plan.common.has_shared_subnets:
        count += len(used) * (len(plan.nodes) - 1 + PROBED_PEERS)
    return management + (count if family == AF_INET else 2 * count)
