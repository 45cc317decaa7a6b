"""Which IPAM deals out pod addresses in stacks that leave the choice: NV-IPAM, Whereabouts, or none (scheme none)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trackbed.cluster.stacks import nv_ipam, whereabouts
from trackbed.cluster.stacks.objects import json_text
from trackbed.cluster.stacks.stack import Chart, Stage
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan, RailPlan


def nv_ipam_chosen(plan: Plan) -> bool:
    """Whether NV-IPAM has anything to do."""
    return plan.kubernetes.ipam == "nv-ipam" and _addressed(plan)


def charts(plan: Plan) -> tuple[Chart, ...]:
    """What must be installed for the chosen IPAM; NV-IPAM comes with the operators that bring it."""
    return (whereabouts.chart(plan),) if plan.kubernetes.ipam == "whereabouts" and _addressed(plan) else ()


def section(plan: Plan, rail: RailPlan) -> dict[str, Any] | None:
    """The ipam section of a rail's network; None where pods get no addresses."""
    if not _addressed(plan):
        return None
    return nv_ipam.ipam(plan, rail) if plan.kubernetes.ipam == "nv-ipam" else whereabouts.ipam(plan, rail)


def section_text(plan: Plan, rail: RailPlan) -> str | None:
    """The ipam section as the text that operators' objects hold."""
    found = section(plan, rail)
    return json_text(found) if found else None


def pool_stages(plan: Plan, namespace: str) -> Iterator[Stage]:
    """The stage with the pools, where there are any; `namespace` is the one that NV-IPAM reads."""
    if nv_ipam_chosen(plan):
        yield Stage("pools", nv_ipam.pools(plan, namespace), nv_ipam.allocated(plan, namespace))


def refusals(plan: Plan, namespace: str) -> Iterator[Problem]:
    """Plans without pod addresses, and what the chosen IPAM cannot deal out."""
    if not _addressed(plan):
        return
    if not all(own.pods_count for own in plan.nodes[0].ports[0].addresses):
        message = "no address is left for pods; write addressing.podAddresses, how many pods a node may have on a rail"
        yield Problem("stack-no-pod-addresses", message, ("spec", "addressing", "podAddresses"))
    elif plan.kubernetes.ipam == "whereabouts":
        yield from whereabouts.refusals(plan)
    else:
        yield from nv_ipam.refusals(plan, namespace)


def _addressed(plan: Plan) -> bool:
    return plan.common.scheme != "none"
