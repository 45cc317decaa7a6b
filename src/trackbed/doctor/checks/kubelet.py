"""Step kubelet: kubelet can start with its configuration, and places pods as planned.

The checks read kubelet's configuration with its drop-ins (kubelet.config.k8s.io/v1beta1), its arguments, and the state
files in its folder. A host without that configuration has no kubelet and is skipped.
"""

from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.checks import kubelet_host, kubelet_states
from trackbed.doctor.checks.kubelet_config import KubeletInfo, read_kubelet_info
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.host.snapshot.snapshot import Snapshot

READS = kubelet_states.READS | kubelet_host.READS


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check kubelet's configuration and its host; a host without that configuration is skipped."""
    kubelet = read_kubelet_info(host)
    if kubelet is None:
        return
    yield from kubelet_states.check(view, host, kubelet)
    yield from check_topology(view, host, kubelet)
    yield from kubelet_host.check(view, host, kubelet)


def check_topology(view: NodeView, host: Snapshot, kubelet: KubeletInfo) -> Iterator[Finding]:
    """Check the policy of the topology manager against the plan and the rails' NUMA nodes."""
    policy, planned = str(kubelet.config.get("topologyManagerPolicy", "none")), view.node.common.kubelet
    if planned and planned.topology_manager:
        evidence = f"topologyManagerPolicy is {policy}, planned {planned.topology_manager}"
        ok = policy == planned.topology_manager
        yield build_finding("kubelet-topology-policy-not-planned", view.node, None, ok=ok, evidence=evidence)
    numa_nodes = {host.read_number(f"/sys/class/net/{port.netdev}/device/numa_node") for port in view.iter_ports()}
    numa_nodes -= {None, -1}
    if numa_nodes:
        ok = policy != "single-numa-node" or len(numa_nodes) == 1
        evidence = f"{policy}; the rails are on {len(numa_nodes)} NUMA nodes"
        yield build_finding("kubelet-topology-affinity-error", view.node, None, ok=ok, evidence=evidence)
