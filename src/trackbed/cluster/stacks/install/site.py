"""Charts that a cluster needs: primary network, the stack's own, the GPU Operator; and one NFD in all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trackbed.cluster.stacks.releases import ChartSource
from trackbed.cluster.stacks.stack import Chart, Wait
from trackbed.fabric.plan.plan import Plan

GPU_OPERATOR = "nvidia-gpu-operator"
NETWORK_OPERATOR = "nvidia-network-operator"

SITE_SOURCES = {
    "calico": ChartSource("tigera-operator", "https://docs.tigera.io/calico/charts"),
    "cilium": ChartSource("cilium", "https://helm.cilium.io"),
}
"""Primary networks: their versions follow the cluster's, so the site chooses them."""


def site_charts(plan: Plan, own: Sequence[Chart]) -> tuple[Chart, ...]:
    """All charts in order of installation; a stack's own GPU Operator stands in for the general one."""
    management = {"calico": _calico, "cilium": _cilium}
    first = (management[plan.kubernetes.management](),) if plan.kubernetes.management else ()
    brought = any(brings_nfd(chart) for chart in own)
    last = () if any(chart.component == GPU_OPERATOR for chart in own) else (_gpu_operator(plan, nfd=not brought),)
    return (*first, *_one_nfd(own), *last)


def brings_nfd(chart: Chart) -> bool:
    """Whether Node Feature Discovery comes with this chart: both operators bring it unless told not to."""
    if chart.component not in {GPU_OPERATOR, NETWORK_OPERATOR}:
        return False
    return bool(chart.values.get("nfd", {}).get("enabled", True))


def _one_nfd(own: Sequence[Chart]) -> list[Chart]:
    """The stack's charts; only the first that brings NFD keeps it, two masters would undo each other's labels."""
    found: list[Chart] = []
    for chart in own:
        if brings_nfd(chart) and any(map(brings_nfd, found)):
            found.append(replace(chart, values=chart.values | {"nfd": {"enabled": False}}))
        else:
            found.append(chart)
    return found


def _gpu_operator(plan: Plan, *, nfd: bool) -> Chart:
    """NVIDIA GPU Operator; GPUDirect RDMA by nvidia-peermem, which must know whose NIC driver it is built against."""
    values = {
        "nfd": {"enabled": nfd},
        "driver": {"rdma": {"enabled": True, "useHostMofed": plan.kubernetes.driver == "host"}},
        "dcgm": {"enabled": True},
        "dcgmExporter": {"enabled": True},
    }
    until = (Wait("deployment/gpu-operator", "condition=Available", "gpu-operator"),)
    return Chart(GPU_OPERATOR, "gpu-operator", values, until)


def _calico() -> Chart:
    """Calico by the Tigera operator: its address is the node's, not the first it finds, which may be a rail's."""
    values = {"installation": {"calicoNetwork": {"nodeAddressAutodetectionV4": {"kubernetes": "NodeInternalIP"}}}}
    until = (
        Wait("deployment/tigera-operator", "condition=Available", "tigera-operator"),
        Wait("tigerastatus/calico", "condition=Available"),
    )
    return Chart("calico", "tigera-operator", values, until)


def _cilium() -> Chart:
    """Cilium beside Multus: it must not rename other CNI configurations. Its devices are asked for at installation."""
    until = (Wait("deployment/cilium-operator", "condition=Available", "kube-system"),)
    return Chart("cilium", "kube-system", {"cni": {"exclusive": False}}, until)
