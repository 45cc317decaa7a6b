"""All charts of a cluster: the primary network's, the stack's, and the GPU Operator. Only one of them installs NFD.

NVIDIA's GPU Operator is installed for NVIDIA's GPUs. Of others the cluster must have a device plugin: see `comparison`.
"""

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
"""Primary network -> source of its chart. The version depends on the cluster's Kubernetes, so the site chooses it."""


def arrange_charts(plan: Plan, stack_charts: Sequence[Chart]) -> tuple[Chart, ...]:
    """Return all charts in order of installation; the GPU Operator is added for GPUs that no chart of the stack has."""
    management = {"calico": _build_calico_chart, "cilium": _build_cilium_chart}
    primary = (management[plan.kubernetes.management](),) if plan.kubernetes.management else ()
    has_nfd = any(installs_nfd(chart) for chart in stack_charts)
    has_gpu_operator = any(chart.component == GPU_OPERATOR for chart in stack_charts)
    wants_gpu_operator = not all(map(is_of_others, plan.list_gpu_resources())) and not has_gpu_operator
    gpu_operator = (_build_gpu_operator_chart(plan, installs_nfd=not has_nfd),) if wants_gpu_operator else ()
    return (*primary, *_disable_duplicate_nfd(stack_charts), *gpu_operator)


def is_of_others(gpu_resource: str) -> bool:
    """Return whether GPUs of this resource are not NVIDIA's, so that NVIDIA's operator does not offer them."""
    return not gpu_resource.startswith("nvidia.com/")


def installs_nfd(chart: Chart) -> bool:
    """Return whether a chart installs Node Feature Discovery: NVIDIA's two operators do so unless it is disabled."""
    if chart.component not in {GPU_OPERATOR, NETWORK_OPERATOR}:
        return False
    return bool(chart.values.get("nfd", {}).get("enabled", True))


def _disable_duplicate_nfd(stack_charts: Sequence[Chart]) -> list[Chart]:
    """Return the stack's charts with NFD in the first only, as two NFD masters would revert each other's labels."""
    charts: list[Chart] = []
    for chart in stack_charts:
        if installs_nfd(chart) and any(map(installs_nfd, charts)):
            charts.append(replace(chart, values=chart.values | {"nfd": {"enabled": False}}))
        else:
            charts.append(chart)
    return charts


def _build_gpu_operator_chart(plan: Plan, *, installs_nfd: bool) -> Chart:
    """Return the chart of NVIDIA's GPU Operator.

    GPUDirect RDMA uses nvidia-peermem, which is built against the NIC driver, either the host's or a container's.
    """
    values = {
        "nfd": {"enabled": installs_nfd},
        "driver": {"rdma": {"enabled": True, "useHostMofed": plan.kubernetes.driver == "host"}},
        "dcgm": {"enabled": True},
        "dcgmExporter": {"enabled": True},
    }
    waits = (Wait("deployment/gpu-operator", "condition=Available", "gpu-operator"),)
    return Chart(GPU_OPERATOR, "gpu-operator", values, waits)


def _build_calico_chart() -> Chart:
    """Return the Tigera operator's chart. Calico uses the node's InternalIP, as the first address may be a rail's."""
    values = {"installation": {"calicoNetwork": {"nodeAddressAutodetectionV4": {"kubernetes": "NodeInternalIP"}}}}
    waits = (
        Wait("deployment/tigera-operator", "condition=Available", "tigera-operator"),
        Wait("tigerastatus/calico", "condition=Available"),
    )
    return Chart("calico", "tigera-operator", values, waits)


def _build_cilium_chart() -> Chart:
    """Return Cilium's chart for use with Multus: Cilium must not rename other CNI configurations."""
    waits = (Wait("deployment/cilium-operator", "condition=Available", "kube-system"),)
    return Chart("cilium", "kube-system", {"cni": {"exclusive": False}}, waits)
