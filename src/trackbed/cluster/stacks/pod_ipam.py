"""The IPAM of stacks that offer a choice: NV-IPAM, Whereabouts, or none with scheme none."""

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.stacks import nv_ipam, whereabouts
from trackbed.cluster.stacks.objects import to_json_text
from trackbed.cluster.stacks.stack import Chart, Stage
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan, RailPlan


def uses_nv_ipam(plan: Plan) -> bool:
    """Return whether the plan has addresses and NV-IPAM assigns them."""
    return plan.kubernetes.ipam == "nv-ipam" and plan.common.has_addresses


def build_charts(plan: Plan) -> tuple[Chart, ...]:
    """Return the chart of Whereabouts if it is chosen, else nothing, as an operator installs NV-IPAM."""
    return (
        (whereabouts.build_chart(plan),) if plan.kubernetes.ipam == "whereabouts" and plan.common.has_addresses else ()
    )


def build_ipam(plan: Plan, rail: RailPlan) -> dict[str, Any] | None:
    """Return the ipam section of a rail's CNI configuration; None if pods get no addresses."""
    if not plan.common.has_addresses:
        return None
    return nv_ipam.build_ipam(plan, rail) if plan.kubernetes.ipam == "nv-ipam" else whereabouts.build_ipam(plan, rail)


def render_ipam(plan: Plan, rail: RailPlan) -> str | None:
    """Return the ipam section as JSON, as operators' network objects require; None if pods get no addresses."""
    ipam = build_ipam(plan, rail)
    return to_json_text(ipam) if ipam else None


def build_pool_stages(plan: Plan, pool_namespace: str) -> Iterator[Stage]:
    """Yield the stage with NV-IPAM's pools if NV-IPAM is used; `pool_namespace` is where it reads them."""
    if uses_nv_ipam(plan):
        yield Stage("pools", nv_ipam.build_pools(plan, pool_namespace), nv_ipam.build_pool_waits(plan, pool_namespace))


def find_refusals(plan: Plan, pool_namespace: str) -> Iterator[Problem]:
    """Yield a problem if the plan has no pod addresses, and those of the chosen IPAM."""
    if not plan.common.has_addresses:
        return
    if plan.kubernetes.ipam == "whereabouts":
        yield from whereabouts.find_refusals(plan)
    if not all(block.pods_count for block in plan.nodes[0].ports[0].addresses):
        yield Problem(
            "stack-no-pod-addresses",
            "no address is left for pods; write addressing.podAddresses, how many pods a node may have on a rail",
            ("spec", "addressing", "podAddresses"),
        )
    elif plan.kubernetes.ipam == "nv-ipam":
        yield from nv_ipam.find_refusals(plan, pool_namespace)
