"""Functions shared by the stacks of clouds: refusals of plans, and overrides of environment variables."""

from collections.abc import Iterator

from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan

VariablePairs = tuple[tuple[str, str], ...]

UNSET_VARIABLES: VariablePairs = tuple(
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
"""The fabric's variables that do not apply to a cloud, or that the provider sets itself, with empty values."""


def override_variables(*variables: tuple[str, str]) -> VariablePairs:
    """Return the provider's variables, and empty values for the fabric's other variables, which removes them."""
    names = {name for name, _ in variables}
    return (*variables, *(pair for pair in UNSET_VARIABLES if pair[0] not in names))


def find_refusals(plan: Plan, link_type: str) -> Iterator[Problem]:
    """Yield a problem if the plan has addresses, VFs, or another link type than the cloud's."""
    if plan.common.has_addresses:
        yield Problem(
            "stack-scheme",
            f"scheme {plan.common.scheme} plans addresses, and this cloud deals its own; write scheme none",
            ("spec", "addressing", "scheme"),
        )
    if plan.common.vfs:
        yield Problem(
            "stack-vfs",
            "VFs are the provider's affair on this cloud; write vfs.count 0, or leave vfs out",
            ("spec", "vfs", "count"),
        )
    if plan.common.link_type != link_type:
        yield Problem(
            "stack-link-type",
            f"the RDMA NICs of this cloud's machines are {link_type}; write linkType {link_type}",
            ("spec", "linkType"),
        )
