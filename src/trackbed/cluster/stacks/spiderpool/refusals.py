"""Refusals of stack `spiderpool`: reasons why Spiderpool cannot implement a plan."""

from collections.abc import Iterator

from trackbed.cluster.stacks import sriov
from trackbed.cluster.stacks.port_names import check_port_names
from trackbed.cluster.stacks.spiderpool.networks import choose_cni_plugin
from trackbed.cluster.stacks.spiderpool.pools import iter_pod_blocks, list_ip_versions
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan


def find_refusals(plan: Plan) -> Iterator[Problem]:
    """Yield the reasons why Spiderpool cannot implement the plan."""
    message = (
        "a /31 has no address besides the port's and its leaf's, and Spiderpool deals addresses to VFs or macvlan "
        "interfaces beside the port: write scheme node-subnet, or choose network-operator-hostdevice, which moves "
        "the port itself"
    )
    problem = sriov.find_scheme_problem(plan, message)
    if problem:
        # pods.mode and RDMA mode follow from the scheme, so what they say here would not hold with another scheme.
        yield problem
    elif choose_cni_plugin(plan) == "macvlan":
        yield from _check_macvlan(plan)
    yield from _check_pod_addresses(plan)


def _check_macvlan(plan: Plan) -> Iterator[Problem]:
    """Yield the problems of a plan without VFs: macvlan needs Ethernet, and all rails share one resource."""
    if plan.common.link_type != "ethernet" or plan.common.pod_mode != "macvlan":
        yield Problem(
            "stack-needs-vfs",
            "no VFs are planned, and without them pods share ports by macvlan, which needs linkType ethernet and "
            f"pods.mode macvlan; here are {plan.common.link_type} and {plan.common.pod_mode}: write vfs.count, "
            "for example 8",
            ("spec", "vfs", "count"),
        )
        return
    if plan.common.rdma_mode != "shared":
        yield Problem(
            "stack-rdma-mode",
            "macvlan pods share the port's RDMA device, which needs RDMA namespace mode shared: leave out "
            "rdma.namespaceMode, or write vfs.count for devices of their own",
            ("spec", "rdma", "namespaceMode"),
        )
    yield from check_port_names(plan, "a macvlan network")


def _check_pod_addresses(plan: Plan) -> Iterator[Problem]:
    if plan.common.scheme not in {"shared-subnet", "node-subnet"}:
        return
    for rail in plan.common.rails:
        for version in list_ip_versions(plan):
            if next(iter_pod_blocks(plan, rail.rail, version), None) is None:
                yield Problem(
                    "stack-no-pod-addresses",
                    f"rail {rail.rail} has no IPv{version} addresses for pods, Spiderpool would have none to deal out: "
                    "write addressing.podAddresses, 1 or more",
                    ("spec", "addressing", "podAddresses"),
                )
                return
