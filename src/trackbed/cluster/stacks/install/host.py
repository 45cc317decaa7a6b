"""What kubelet and containerd on the nodes need; hosts' own files, so no object of the cluster brings them.

kubelet.config.k8s.io/v1beta1 and the Kubernetes pages on the Topology Manager and the CPU Manager; systemd.exec(5) on
LimitMEMLOCK; containerd's documents on CRI, CDI and NRI.
"""

from __future__ import annotations

from collections.abc import Iterable

_KUBELET = """\
# For the folder of kubelet's --config-dir, under a name that ends in .conf; or to merge into its configuration file
# (/var/lib/kubelet/config.yaml).
# After cpuManagerPolicy changed kubelet does not start again on its old state; on each node, one after the other:
#   kubectl drain NODE --ignore-daemonsets --delete-emptydir-data
#   systemctl stop kubelet; rm /var/lib/kubelet/cpu_manager_state; systemctl start kubelet
#   kubectl uncordon NODE
# memoryManagerPolicy is left alone.
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
# NIC, GPU and CPUs of one socket where a pod fits on it. restricted and single-numa-node would refuse pods that take
# all rails: each rail is a resource of its own, and the rails of two sockets have no NUMA node in common.
topologyManagerPolicy: best-effort
# Whole CPUs for pods of class Guaranteed. It needs a reservation for the system, or kubelet exits.
cpuManagerPolicy: static
systemReserved:
  cpu: "2"
kubeReserved:
  cpu: "2"
"""

_MEMLOCK = """\
# /etc/systemd/system/containerd.service.d/10-memlock.conf; then: systemctl daemon-reload, systemctl restart containerd
# Registering memory for RDMA locks it; containers inherit this limit from containerd.
[Service]
LimitMEMLOCK=infinity
"""

_CONTAINERD = """\
# For containerd 1.7 only, where both are off; 2.0 and later have them on. Write it as
# /etc/containerd/conf.d/cdi-nri.toml, name it in /etc/containerd/config.toml, then restart containerd:
# imports = ["/etc/containerd/conf.d/*.toml"]
version = 2

# Container Device Interface: device plugins and DRA drivers hand devices over by name.
[plugins."io.containerd.grpc.v1.cri"]
  enable_cdi = true
  cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]

# Node Resource Interface: DRA network drivers hook into the start of pods.
[plugins."io.containerd.nri.v1.nri"]
  disable = false
"""


def host_files() -> dict[str, Iterable[str]]:
    """Name -> text of the files for hosts."""
    return {
        "host/kubelet.yaml": (_KUBELET,),
        "host/containerd.service.d/10-memlock.conf": (_MEMLOCK,),
        "host/containerd.toml": (_CONTAINERD,),
    }
