"""The CNI plugin that moves a VF into a pod: its configuration, and its binary on the nodes.

sriov       moves the VF, sets trust and spoof check; `rdma` after it moves the RDMA device in mode exclusive
ib-sriov    the same for InfiniBand; it moves the RDMA device itself, and must not be chained with rdma

Network Operator installs these binaries only with its SR-IOV operator, which would bring a device plugin too; so a
DaemonSet of the plugins' own images does it. Each image copies its binary to /host/opt/cni/bin and sleeps.
"""

from __future__ import annotations

from typing import Any

from trackbed.cluster.stacks import pod_ipam
from trackbed.cluster.stacks.groups import selector
from trackbed.cluster.stacks.network_operator.policy import image
from trackbed.cluster.stacks.objects import Manifest, manifest
from trackbed.cluster.stacks.sriov import SYSCTLS
from trackbed.fabric.plan.plan import Plan, RailPlan

NAME = "rail-cni-plugins"


def network_config(plan: Plan, rail: RailPlan) -> dict[str, Any]:
    """A rail's CNI configuration list (CNI specification 1.0.0); the driver puts the VF's PCI address in."""
    plugins = _infiniband(plan) if plan.common.link_type == "infiniband" else _ethernet(plan)
    if ipam := pod_ipam.section(plan, rail):
        plugins[0]["ipam"] = ipam
    if plan.common.cross_rail == "routed":
        plugins.append({"type": "sbr"})
    return {"cniVersion": "1.0.0", "name": rail.network, "plugins": plugins}


def _infiniband(plan: Plan) -> list[dict[str, Any]]:
    return [{"type": "ib-sriov", "link_state": "enable", "rdmaIsolation": plan.common.rdma_mode == "exclusive"}]


def _ethernet(plan: Plan) -> list[dict[str, Any]]:
    """The VF, its RDMA device where devices are exclusive, its MTU, and no ARP in the name of another rail."""
    common = plan.common
    vf = {"type": "sriov", "spoofchk": _switch(on=common.vf_spoof_check), "trust": _switch(on=common.vf_trust)}
    sysctl = {f"net.ipv4.conf.IFNAME.{key}": value for key, value in SYSCTLS.items()}
    tuning: dict[str, Any] = {"type": "tuning", "mtu": common.vf_mtu_bytes, "sysctl": sysctl}
    return [vf, *([{"type": "rdma"}] if common.rdma_mode == "exclusive" else []), tuning]


def _switch(*, on: bool) -> str:
    return "on" if on else "off"


def cni_plugins(plan: Plan, namespace: str) -> Manifest:
    """A DaemonSet that keeps the plugins' binaries on the fabric's nodes."""
    labels = {"app.kubernetes.io/name": NAME}
    pod = {
        "nodeSelector": selector(plan),
        "tolerations": [{"operator": "Exists"}],
        "containers": [_installer(plan, name) for name in _plugins(plan)],
        "volumes": [{"name": "cni-bin", "hostPath": {"path": "/opt/cni/bin"}}],
    }
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    return manifest("apps/v1", "DaemonSet", NAME, namespace, labels=labels, spec=spec)


def _plugins(plan: Plan) -> list[str]:
    if plan.common.link_type == "infiniband":
        return ["ib-sriov-cni"]
    return ["sriov-cni", "rdma-cni"] if plan.common.rdma_mode == "exclusive" else ["sriov-cni"]


def _installer(plan: Plan, name: str) -> dict[str, Any]:
    found = image(plan, name)
    return {
        "name": name,
        "image": f"{found['repository']}/{found['image']}:{found['version']}",
        "resources": {"requests": {"cpu": "10m", "memory": "15Mi"}},
        "volumeMounts": [{"name": "cni-bin", "mountPath": "/host/opt/cni/bin"}],
    }
