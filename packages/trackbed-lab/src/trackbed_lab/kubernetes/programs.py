"""The programs of a Kubernetes, and the Go modules that they are built from."""

from dataclasses import dataclass

_KUBERNETES = "k8s.io/kubernetes/cmd"
_CONTAINERD = "github.com/containerd/containerd/v2/cmd"
_PLUGINS = "github.com/containernetworking/plugins/plugins"


@dataclass(frozen=True, slots=True)
class Program:
    """A Go program: its name, its module's folder below `modules` (`shim`: in `trackbed.node.cni`), and its package."""

    name: str
    module: str
    package: str
    tags: str = ""
    """Build tags, which exclude unused features that need C libraries."""


CONTROL_PLANE = (
    Program("generate_cert", "etcd", "{goroot}/src/crypto/tls/generate_cert.go"),
    Program("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    *(
        Program(name, "kubernetes", f"{_KUBERNETES}/{name}")
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
    ),
)
"""The programs of a control plane, and Go's generator of certificates."""

NODE = (
    *(Program(name, "kubernetes", f"{_KUBERNETES}/{name}") for name in ("kubelet", "kubectl")),
    *(
        Program(name, "containerd", f"{_CONTAINERD}/{name}", tags="no_btrfs,no_zfs,no_devmapper")
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    ),
    *(
        Program(name, "cni", f"{_PLUGINS}/{folder}/{name}")
        for name, folder in (("loopback", "main"), ("bridge", "main"), ("host-local", "ipam"))
    ),
    Program("pause", "pause", "trackbed.dev/lab/pause"),
)
"""The programs of a node, with kubectl and ctr for its administrator."""

SHIM = (Program("trackbed", "shim", "trackbed.dev/cni"),)
"""Trackbed's CNI executable, as in its images."""

CNITOOL = (Program("cnitool", "cni", "github.com/containernetworking/cni/cnitool"),)
"""libcni's command-line program, which calls plugins as a runtime does."""

HELM = (Program("helm", "helm", "helm.sh/helm/v4/cmd/helm"),)
"""Helm, built from the same Kubernetes modules as the control plane; tests install charts with it."""
