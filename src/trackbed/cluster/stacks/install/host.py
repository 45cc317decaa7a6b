"""Configuration files of kubelet and containerd, which cannot be set by objects of the cluster.

Sources: kubelet.config.k8s.io/v1beta1 and the Kubernetes pages on the Topology Manager and the CPU Manager;
systemd.exec(5) on LimitMEMLOCK; containerd's documentation of CRI, CDI and NRI.
"""

from collections.abc import Iterable, Iterator

from trackbed.fabric.plan.plan import KubeletPlan, Plan

_KUBELET = """\
# Copy this to the directory of kubelet's --config-dir under a name that ends in .conf, or merge it into kubelet's
# configuration file (/var/lib/kubelet/config.yaml).
# After a change of cpuManagerPolicy kubelet does not start with its old state. On each node, one after the other:
#   kubectl drain NODE --ignore-daemonsets --delete-emptydir-data
#   systemctl stop kubelet; rm /var/lib/kubelet/cpu_manager_state; systemctl start kubelet
#   kubectl uncordon NODE
# memoryManagerPolicy is left at its default.
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
"""

_DEFAULT_POLICIES = """\
# NIC, GPU and CPUs come from one socket if the pod fits on it. restricted and single-numa-node would refuse pods that
# use all rails: each rail is a separate resource, and the rails of two sockets have no NUMA node in common.
topologyManagerPolicy: best-effort
# Exclusive CPUs for pods of QoS class Guaranteed. Without CPUs reserved for the system kubelet exits.
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
# For containerd 1.7 only, in which CDI and NRI are disabled by default; 2.0 and later enable them. Copy this to
# /etc/containerd/conf.d/cdi-nri.toml, import it in /etc/containerd/config.toml, and restart containerd:
# imports = ["/etc/containerd/conf.d/*.toml"]
version = 2

# Container Device Interface: device plugins and DRA drivers pass devices to containers by name.
[plugins."io.containerd.grpc.v1.cri"]
  enable_cdi = true
  cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]

# Node Resource Interface: DRA network drivers attach interfaces when a pod starts.
[plugins."io.containerd.nri.v1.nri"]
  disable = false
"""


def build_host_files(plan: Plan) -> dict[str, Iterable[str]]:
    """Return the name of each file in the bundle, and the pieces of its text."""
    return {
        "host/kubelet.yaml": (_KUBELET, *_render_policies(plan.common.kubelet)),
        "host/containerd.service.d/10-memlock.conf": (_MEMLOCK,),
        "host/containerd.toml": (_CONTAINERD,),
    }


def _render_policies(kubelet: KubeletPlan | None) -> Iterator[str]:
    """Yield the lines that `trackbed apply` writes into kubelet's drop-in; defaults if the Fabric has none."""
    if kubelet is None:
        yield _DEFAULT_POLICIES
        return
    yield "# As section kubelet of the Fabric says, and as `trackbed apply` writes it.\n"
    if kubelet.topology_manager:
        yield f"topologyManagerPolicy: {kubelet.topology_manager}\n"
    if kubelet.reserved_cpus:
        yield f'cpuManagerPolicy: static\nreservedSystemCPUs: "{kubelet.reserved_cpus}"\n'
