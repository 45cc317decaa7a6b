"""Comparison of the stacks for one plan: what each gives and asks, and all that speaks against it.

Plan, traits of a stack, release catalogue ──> ComparedStack ──> recommendation
"""

from collections.abc import Iterator
from typing import Literal

import msgspec

from trackbed.cluster.stacks.install.site import is_of_others
from trackbed.cluster.stacks.install.values import list_charts
from trackbed.cluster.stacks.refusals import find_refusals
from trackbed.cluster.stacks.releases import choose_release, load_catalogue
from trackbed.cluster.stacks.stack import Stack
from trackbed.cluster.stacks.traits import Maturity, Share, count_pods
from trackbed.fabric.plan.plan import Plan

Evidence = Literal["ran", "accepted", "rendered"]

_NVIDIA = "15b3:"
"""PCI vendor of NVIDIA's NICs."""

EVIDENCE: dict[Evidence, str] = {
    "ran": "its pods ran in the lab",
    "accepted": "a real API server accepts its objects; its pods never ran here",
    "rendered": "its files are written and compared with reviewed ones; nothing of it ran here",
}
"""What was tried of a stack -> its meaning."""

MATURITY: dict[Maturity, str] = {
    "released": "its authors call it ready",
    "preview": "its authors do not call it ready",
    "new": "its authors call it ready, and no site relies on it yet",
}
"""Maturity of a stack -> its meaning."""


class Figures(msgspec.Struct, frozen=True, rename="camel"):
    """What a stack that fits gives to pods, and what it asks of a cluster."""

    pod_gets: str
    """What a pod gets of a rail: own VF, own port, shared port, the host's, nothing."""
    isolation: str
    pods_per_node: int | None
    """Pods with all rails that fit on a node, by the plan; None if nothing limits them."""
    kubernetes_from: str | None
    """Oldest version of Kubernetes; None if it is not documented."""
    kubernetes_to: str | None
    """Newest version of Kubernetes that is documented."""
    kernel: str | None
    installs: tuple[str, ...]
    """Charts that its installation has: component and version."""
    operators: tuple[str, ...]
    feature_gates: tuple[str, ...]
    writes_per_pod: int | None
    writes_are_minimum: bool
    writes_source: str

    @property
    def kubernetes(self) -> str:
        """The versions of Kubernetes, as 1.31-1.35 or 1.34+."""
        if self.kubernetes_from is None:
            return "-"
        return f"{self.kubernetes_from}-{self.kubernetes_to}" if self.kubernetes_to else f"{self.kubernetes_from}+"

    @property
    def writes(self) -> str:
        """The writes for a pod; `+` for a minimum, `-` if unknown."""
        return "-" if self.writes_per_pod is None else f"{self.writes_per_pod}{'+' * self.writes_are_minimum}"

    @property
    def pods(self) -> str:
        """The pods of a node; `-` if nothing limits them."""
        return "-" if self.pods_per_node is None else str(self.pods_per_node)


class ComparedStack(msgspec.Struct, frozen=True, rename="camel"):
    """A stack in the comparison."""

    name: str
    title: str
    fits: bool
    only_for: str
    """The sites that it is for; empty for any cluster."""
    maturity: Maturity
    maturity_reason: str
    evidence: Evidence
    evidence_detail: str
    needs: tuple[str, ...]
    cannot: tuple[str, ...]
    refusals: tuple[str, ...]
    """All reasons why it does not fit."""
    figures: Figures | None
    """None if the stack does not fit."""


def compare_stack(stack: Stack, plan: Plan) -> ComparedStack:
    """Return a stack with its facts for the plan."""
    refusals = tuple(str(problem) for problem in find_refusals(stack, plan))
    traits = stack.traits
    evidence, evidence_detail = _weigh_evidence(stack, plan)
    return ComparedStack(
        stack.name,
        stack.title,
        not refusals,
        traits.only_for,
        traits.maturity,
        traits.maturity_reason,
        evidence,
        evidence_detail,
        stack.needs,
        stack.cannot,
        refusals,
        None if refusals else _build_figures(stack, plan),
    )


def find_evidence(stack: Stack) -> Evidence:
    """Return what was tried of a stack."""
    return "ran" if stack.traits.ran else "accepted" if stack.has_objects else "rendered"


def _weigh_evidence(stack: Stack, plan: Plan) -> tuple[Evidence, str]:
    """Return what was tried of a stack as the plan wants it, with its detail: the lab has Ethernet alone."""
    traits, evidence = stack.traits, find_evidence(stack)
    if evidence != "ran":
        return evidence, EVIDENCE[evidence]
    if plan.common.link_type != "ethernet" or traits.ran_share not in {None, traits.share(plan)}:
        return "accepted", f"a real API server accepts its objects; its pods ran otherwise: {traits.ran}"
    return evidence, traits.ran


def _build_figures(stack: Stack, plan: Plan) -> Figures:
    traits, share, writes = stack.traits, stack.traits.share(plan), stack.traits.writes(plan)
    oldest, newest = _find_kubernetes(stack, plan)
    return Figures(
        share,
        share.isolation,
        traits.pods(plan) if traits.pods else count_pods(plan, share),
        oldest,
        newest,
        _find_kernel(share, plan) if stack.has_objects else None,
        tuple(_describe_charts(stack, plan)),
        (*traits.operators, *_list_device_plugins(stack, plan)),
        traits.feature_gates,
        writes.count,
        writes.is_minimum,
        writes.source,
    )


def _list_device_plugins(stack: Stack, plan: Plan) -> list[str]:
    """Return what offers GPUs for which no chart is installed; a platform has its own."""
    if stack.platform_operators or not stack.has_objects:
        return []
    return [f"a device plugin that offers {name}" for name in plan.list_gpu_resources() if is_of_others(name)]


def _find_kubernetes(stack: Stack, plan: Plan) -> tuple[str | None, str | None]:
    """Return the oldest and the newest version of Kubernetes that the stack and the releases of its charts take."""
    documented = [
        choose_release(plan, chart.component).kubernetes
        for chart in stack.charts(plan)
        if chart.component in load_catalogue()
    ]
    oldest = [release["documented_min"] for release in documented if "documented_min" in release]
    newest = [release["documented_max"] for release in documented if "documented_max" in release]
    oldest += [stack.traits.kubernetes] if stack.traits.kubernetes else []
    return max(oldest, key=_to_number, default=None), min(newest, key=_to_number, default=None)


def _to_number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _find_kernel(share: Share, plan: Plan) -> str | None:
    """Return the kernel that moves RDMA devices between namespaces, as the CNI plugins rdma and ib-sriov need it."""
    if share not in {Share.VF, Share.PORT} or plan.common.rdma_mode != "exclusive":
        return None
    if plan.common.link_type == "infiniband":
        return "5.6"
    has_nvidia_nics = any(node.nic is None or node.nic.startswith(_NVIDIA) for node in plan.nodes)
    return "5.3, or NVIDIA's OFED 4.7" if has_nvidia_nics else "5.3"


def _describe_charts(stack: Stack, plan: Plan) -> Iterator[str]:
    for chart in list_charts(stack, plan):
        known = chart.component in load_catalogue()
        yield f"{chart.component} {choose_release(plan, chart.component).version}" if known else chart.component
