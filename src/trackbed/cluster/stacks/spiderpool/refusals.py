"""What Spiderpool cannot do, found in the plan before any object is made."""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.cluster.stacks import sriov
from trackbed.cluster.stacks.port_names import unlike_names
from trackbed.cluster.stacks.spiderpool.networks import kind
from trackbed.cluster.stacks.spiderpool.pools import addressed, versions
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan


def refusals(plan: Plan) -> Iterator[Problem]:
    """Why this plan cannot be had on Spiderpool."""
    message = (
        "a /31 has no address besides the port's and its leaf's, and Spiderpool deals addresses to VFs or macvlan "
        "interfaces beside the port: write scheme node-subnet, or choose network-operator-hostdevice, which moves "
        "the port itself"
    )
    problem = sriov.find_scheme_problem(plan, message)
    if problem:
        yield problem
        return
    if kind(plan) == "macvlan":
        yield from _macvlan(plan)
    yield from _pod_addresses(plan)


def device_ids(plan: Plan) -> list[tuple[str, str]]:
    """PCI vendor and device id of each kind of port that the Fabric names, in order of first appearance."""
    found = dict.fromkeys(node.nic for node in plan.nodes if node.nic)
    return [(vendor, device) for vendor, _, device in (nic.partition(":") for nic in found)]


def _macvlan(plan: Plan) -> Iterator[Problem]:
    """Without VFs there is macvlan alone, on Ethernet, and one device plugin for all rails."""
    if plan.common.link_type != "ethernet" or plan.common.pod_mode != "macvlan":
        message = (
            "no VFs are planned, and without them pods share ports by macvlan, which needs linkType ethernet and "
            f"pods.mode macvlan; here are {plan.common.link_type} and {plan.common.pod_mode}: write vfs.count, "
            "for example 8"
        )
        yield Problem("stack-needs-vfs", message, ("spec", "vfs", "count"))
        return
    if plan.common.rdma_mode != "shared":
        message = (
            "macvlan pods share the port's RDMA device, which needs RDMA namespace mode shared: leave out "
            "rdma.namespaceMode, or write vfs.count for devices of their own"
        )
        yield Problem("stack-rdma-mode", message, ("spec", "rdma", "namespaceMode"))
    yield from unlike_names(plan, "a macvlan network")
    yield from _one_nic(plan)


def _one_nic(plan: Plan) -> Iterator[Problem]:
    """The chart writes the device plugin's selector with one PCI id, always."""
    found = device_ids(plan)
    if len(found) == 1 and all(node.nic for node in plan.nodes):
        return
    told = ", ".join(":".join(each) for each in found) or "none"
    message = (
        "the RDMA device plugin of Spiderpool's chart selects ports by one PCI vendor and device id, and the Fabric "
        f"names {told}: write nic, for example 15b3:1021, in every group of nodes, all alike; or write vfs.count"
    )
    yield Problem("stack-needs-nic", message, ("spec", "nodes"))


def _pod_addresses(plan: Plan) -> Iterator[Problem]:
    if plan.common.scheme not in {"shared-subnet", "node-subnet"}:
        return
    for rail in plan.common.rails:
        for version in versions(plan):
            if next(addressed(plan, rail.rail, version), None) is None:
                message = (
                    f"rail {rail.rail} has no IPv{version} addresses for pods, Spiderpool would have none to deal out: "
                    "write addressing.podAddresses, 1 or more"
                )
                yield Problem("stack-no-pod-addresses", message, ("spec", "addressing", "podAddresses"))
                return
