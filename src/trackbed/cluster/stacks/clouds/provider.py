"""What all clouds have in common: which plans they can take, and variables that are the provider's own affair."""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan

Variables = tuple[tuple[str, str], ...]

LEFT_OUT: Variables = tuple(
    (name, "")
    for name in (
        "NCCL_IB_HCA",
        "NCCL_CROSS_NIC",
        "NCCL_IB_SUBNET_AWARE_ROUTING",
        "NCCL_IB_SUBNET_PREFIX_LEN",
        "NCCL_IB_ADDR_FAMILY",
        "NCCL_IB_ADDR_RANGE",
        "NCCL_IB_TC",
        "UCX_NET_DEVICES",
        "UCX_IB_TRAFFIC_CLASS",
        "UCX_IB_ROCE_REACHABILITY_MODE",
    )
)
"""What follows from a plan of one's own network, and is wrong or already set in a provider's."""


def instead(*own: tuple[str, str]) -> Variables:
    """A provider's own variables; the general ones are left out."""
    named = {name for name, _ in own}
    return (*own, *(pair for pair in LEFT_OUT if pair[0] not in named))


def refusals(plan: Plan, link_type: str) -> Iterator[Problem]:
    """Why a plan is none for this cloud: it plans addresses or VFs, or another link layer."""
    if plan.common.scheme != "none":
        message = f"scheme {plan.common.scheme} plans addresses, and this cloud deals its own; write scheme none"
        yield Problem("stack-scheme", message, ("spec", "addressing", "scheme"))
    if plan.common.vfs:
        message = "VFs are the provider's affair on this cloud; write vfs.count 0, or leave vfs out"
        yield Problem("stack-vfs", message, ("spec", "vfs", "count"))
    if plan.common.link_type != link_type:
        message = f"the RDMA NICs of this cloud's machines are {link_type}; write linkType {link_type}"
        yield Problem("stack-link-type", message, ("spec", "linkType"))
