"""Step kubelet: a pod's CPUs, GPUs and NICs are on one NUMA node, if the Fabric requests it.

Wanted: a drop-in of KubeletConfiguration (kubelet.config.k8s.io/v1beta1) with topologyManagerPolicy, and
cpuManagerPolicy static with reservedSystemCPUs. kubelet reads it if it is started with --config-dir. With another CPU
manager policy the old state file must be removed while kubelet is stopped. Without alignment, traffic between a GPU and
its NIC crosses the sockets.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from trackbed.fabric.plan.plan import KubeletPlan, NodePlan
from trackbed.host.kinds import cpu_state, file, kubelet_reads
from trackbed.host.setting import HEAD, Setting

STEP = "kubelet"
HAS_FILES = True

FOLDER = str(PurePosixPath(file.KUBELET_DROP_IN).parent)

CONFIG = "/var/lib/kubelet/config.yaml"
_NEEDS = (CONFIG, "/var/lib/rancher/*/agent/etc/kubelet.conf.d", "/etc/kubernetes/kubelet.conf")
"""One of these is on a host with a kubelet of kubeadm, of RKE2 or k3s, or of OpenShift."""


def iter_settings(node: NodePlan) -> Iterator[Setting]:
    """Yield the drop-in, its use by kubelet, and the CPU manager's state; nothing if the plan has none."""
    kubelet = node.common.kubelet
    if kubelet is None:
        return
    why = "a pod's CPUs, GPUs and NICs come from one NUMA node"
    yield Setting(
        STEP,
        file.Want(file.KUBELET_DROP_IN, _render_drop_in(kubelet), _NEEDS, "no kubelet is set up here"),
        None,
        why,
    )
    if kubelet.reserved_cpus:
        yield Setting(STEP, cpu_state.Want("static"), None, "kubelet refuses to start on the state of another policy")
    yield Setting(STEP, kubelet_reads.Want(FOLDER, file.KUBELET_DROP_IN), None, why)


def _render_drop_in(kubelet: KubeletPlan) -> str:
    lines = ["apiVersion: kubelet.config.k8s.io/v1beta1", "kind: KubeletConfiguration"]
    if kubelet.topology_manager:
        lines.append(f"topologyManagerPolicy: {kubelet.topology_manager}")
    if kubelet.reserved_cpus:
        lines += ["cpuManagerPolicy: static", f'reservedSystemCPUs: "{kubelet.reserved_cpus}"']
    return HEAD + "".join(f"{line}\n" for line in lines)
