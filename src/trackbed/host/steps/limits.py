"""Step limits: the kernel's neighbour tables are large enough for all neighbours of the plan.

    neighbours   shared-subnet: nodes x (port + pod addresses of a node) + gateway, summed over the node's rails
                 the routed schemes: gateway + pod addresses of the node itself, summed over its rails
    gc_thresh3   twice the neighbours, rounded up to a power of two, never below the kernel's 1024
    gc_thresh2   half of gc_thresh3, gc_thresh1 an eighth: the proportions of the kernel's 128/512/1024

Example: 64 nodes with 15 pod addresses on 8 flat rails: 8 * (64 * 16 + 1) = 8200 neighbours, so 32768/16384/4096.
(Documentation/networking/ip-sysctl.rst; the tables are shared by all network namespaces, the files exist only in the
initial one.) Without it: "neighbour: arp_cache: neighbor table overflow!", and new peers are unreachable at random.

Login sessions may lock memory without limit (limits.d, pam_limits(8)), because RDMA locks its buffers. Pods inherit the
limit of the container runtime (step runtime).
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.model.ranges import V4, V6
from trackbed.fabric.plan.plan import AddressPlan, NodePlan
from trackbed.host.kinds import file, sysctl
from trackbed.host.setting import HEAD, Setting

STEP = "limits"
IS_RENDERED = True
HAS_FILES = True

_UNLIMITED = "".join(f"{who} {kind} memlock unlimited\n" for who in ("*", "root") for kind in ("soft", "hard"))

KERNEL_THRESH3 = 1024
"""Default gc_thresh3 of arp_tbl (net/ipv4/arp.c) and nd_tbl (net/ipv6/ndisc.c)."""


def iter_settings(node: NodePlan) -> Iterator[Setting]:
    """Yield three thresholds for each planned IP version, and the limit of locked memory."""
    for version in (V4, V6):
        count = count_neighbours(node, version)
        if not count:
            continue
        largest = compute_thresh3(count)
        why = f"the rails can bring {count} neighbours"
        for number, value in ((3, largest), (2, largest // 2), (1, largest // 8)):
            key = f"net/ipv{version}/neigh/default/gc_thresh{number}"
            yield Setting(STEP, sysctl.Want(key, str(value), at_least=True), None, why)
    if node.ports:
        folder = ("/etc/security/limits.d",)
        want = file.Want(file.MEMLOCK, HEAD + _UNLIMITED, folder, "there is no PAM limits folder here")
        yield Setting(STEP, want, None, "RDMA outside pods locks the memory it registers")


def count_neighbours(node: NodePlan, ip_version: int) -> int:
    """Return how many neighbours the host may have on all rails together; 0 if the plan lacks the IP version."""
    return sum(
        _count_rail_neighbours(node, address)
        for port in node.ports
        for address in port.addresses
        if address.version == ip_version
    )


def compute_thresh3(neighbour_count: int) -> int:
    """Return gc_thresh3 for a number of neighbours."""
    return max(KERNEL_THRESH3, 1 << (2 * neighbour_count - 1).bit_length())


def _count_rail_neighbours(node: NodePlan, address: AddressPlan) -> int:
    gateway = 1 if address.gateway else 0
    if node.common.has_shared_subnets:
        return node.common.nodes * (1 + address.pods_count) + gateway
    return gateway + address.pods_count
