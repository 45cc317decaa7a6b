"""Which programs a real Kubernetes is made of, and from which Go modules they are built."""

from __future__ import annotations

from dataclasses import dataclass

_KUBERNETES = "k8s.io/kubernetes/cmd"
_CONTAINERD = "github.com/containerd/containerd/v2/cmd"
_PLUGINS = "github.com/containernetworking/plugins/plugins"


@dataclass(frozen=True, slots=True)
class Program:
    """A program, the folder of its go.mod below `modules` (`shim`: that of `trackbed.node.cni`), and its package."""

    name: str
    module: str
    package: str
    tags: str = ""
    """What is left out: parts that need C libraries, and that nothing here uses."""


CONTROL_PLANE = (
    Program("generate_cert", "etcd", "{goroot}/src/crypto/tls/generate_cert.go"),
    Program("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    *(
        Program(name, "kubernetes", f"{_KUBERNETES}/{name}")
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
    ),
)
"""What a control plane runs, and Go's own maker of certificates."""

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
"""What a node runs, and what is used there by hand: kubectl, ctr."""

SHIM = (Program("trackbed", "shim", "trackbed.dev/cni"),)
"""Our own CNI executable, as images have it."""

CNITOOL = (Program("cnitool", "cni", "github.com/containernetworking/cni/cnitool"),)
"""libcni's own program: calls plugins as a runtime does."""

HELM = (Program("helm", "helm", "helm.sh/helm/v4/cmd/helm"),)
"""Helm itself, of the Kubernetes modules that the control plane is built of; tests install charts with it."""
