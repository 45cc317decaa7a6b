"""Step kubelet: it can start with its configuration, and places pods as the plan says.

What is looked at is kubelet's configuration with its drop-ins (kubelet.config.k8s.io/v1beta1), its arguments, and the
states that it keeps in its folder. A host without that configuration has no kubelet and is not judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.doctor.checks import kubelet_host, kubelet_states
from trackbed.doctor.checks.kubelet_config import READS as CONFIG
from trackbed.doctor.checks.kubelet_config import KubeletInfo, read_kubelet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.host.snapshot.snapshot import Snapshot

READS = CONFIG | kubelet_states.READS | kubelet_host.READS
"""What these checks want to see of a host."""


def check(view: NodeView) -> Iterator[Finding]:
    """Judge the host as a whole."""
    host = view.host
    told = read_kubelet(host) if host is not None else None
    if host is None or told is None:
        return
    yield from kubelet_states.check(view, host, told)
    yield from _topology(view, host, told)
    yield from kubelet_host.check(view, host, told)


def _topology(view: NodeView, host: Snapshot, told: KubeletInfo) -> Iterator[Finding]:
    have, wanted = str(told.config.get("topologyManagerPolicy", "none")), view.node.common.kubelet
    if wanted and wanted.topology_manager:
        evidence = f"topologyManagerPolicy is {have}, planned {wanted.topology_manager}"
        ok = have == wanted.topology_manager
        yield judge("kubelet-topology-policy-not-planned", view.node, None, ok=ok, evidence=evidence)
    places = {host.number(f"/sys/class/net/{port.netdev}/device/numa_node") for port in view.iter_ports()} - {None, -1}
    if places:
        ok = have != "single-numa-node" or len(places) == 1
        evidence = f"{have}; the rails are on {len(places)} NUMA nodes"
        yield judge("kubelet-topology-affinity-error", view.node, None, ok=ok, evidence=evidence)
