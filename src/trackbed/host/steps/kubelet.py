"""Step kubelet: a pod's CPUs, GPUs and NICs are taken from one NUMA node, where the Fabric asks for it.

Wanted: a drop-in of KubeletConfiguration (kubelet.config.k8s.io/v1beta1) with topologyManagerPolicy, and
cpuManagerPolicy static with reservedSystemCPUs. kubelet reads it where it is started with --config-dir; another CPU
manager policy needs the old state file gone, which may only be removed while kubelet is stopped. Without alignment a
GPU talks to its NIC over the other socket.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from trackbed.fabric.plan.plan import KubeletPlan, NodePlan
from trackbed.host.kinds import cpu_state, file, kubelet_reads
from trackbed.host.setting import HEAD, Setting

STEP = "kubelet"
IS_RENDERED = False
HAS_FILES = True

FOLDER = str(PurePosixPath(file.KUBELET_DROP_IN).parent)

CONFIG = "/var/lib/kubelet/config.yaml"


def list_settings(node: NodePlan) -> Iterator[Setting]:
    """Yield the drop-in, its use by kubelet, and the CPU manager's state; nothing where the plan has none."""
    kubelet = node.common.kubelet
    if kubelet is None:
        return
    why = "a pod's CPUs, GPUs and NICs come from one NUMA node"
    yield Setting(
        STEP,
        file.Want(file.KUBELET_DROP_IN, _render_drop_in(kubelet), (CONFIG,), "no kubelet is set up here"),
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
