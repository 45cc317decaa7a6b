"""Step limits: the kernel's neighbour tables hold every neighbour that the plan can bring.

    neighbours   shared-subnet: nodes x (port + pod addresses of a node) + gateway, summed over the node's rails
                 the routed schemes: gateway + pod addresses of the node itself, summed over its rails
    gc_thresh3   twice the neighbours, rounded up to a power of two, never below the kernel's 1024
    gc_thresh2   half of gc_thresh3, gc_thresh1 an eighth: the proportions of the kernel's 128/512/1024

Example: 64 nodes with 15 pod addresses on 8 flat rails: 8 * (64 * 16 + 1) = 8200 neighbours, so 32768/16384/4096.
(Documentation/networking/ip-sysctl.rst; the tables are shared by all network namespaces, the files exist only in the
initial one.) Without it: "neighbour: arp_cache: neighbor table overflow!", and new peers are unreachable at random.

Besides, who logs in may lock memory without limit (limits.d, pam_limits(8)): RDMA registers what it sends from. Jobs in
pods get theirs from the container runtime (step runtime).
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


def list_settings(node: NodePlan) -> Iterator[Setting]:
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


def count_neighbours(node: NodePlan, version: int) -> int:
    """Return the largest number of neighbours on all rails in one IP version; 0 where none are planned."""
    return sum(
        _count_on_rail(node, address) for port in node.ports for address in port.addresses if address.version == version
    )


def compute_thresh3(count: int) -> int:
    """Return the table size for `count` neighbours."""
    return max(KERNEL_THRESH3, 1 << (2 * count - 1).bit_length())


def _count_on_rail(node: NodePlan, address: AddressPlan) -> int:
    gateway = 1 if address.gateway else 0
    if node.common.scheme == "shared-subnet":
        return node.common.nodes * (1 + address.pods_count) + gateway
    return gateway + address.pods_count
