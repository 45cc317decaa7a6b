"""What rails are called in Kubernetes: resources, networks, interfaces; and the RDMA devices inside a pod."""

from __future__ import annotations

from trackbed.cluster.stacks.access import Hca, PodNetwork
from trackbed.fabric.plan.plan import Plan, RailPlan

OWN_PREFIX = "trackbed.dev"
"""Prefix of the default resource names; a stack with a prefix of its own puts that in its place."""


def resource(rail: RailPlan, prefix: str) -> str:
    """A rail's extended resource on a stack whose own prefix is `prefix`; a prefix that the user wrote stays."""
    written, _, name = rail.resource.rpartition("/")
    return f"{prefix if written in {'', OWN_PREFIX} else written}/{name}"


def short_resource(rail: RailPlan) -> str:
    """A rail's resource name without prefix, as operators and device plugins want it."""
    return rail.resource.rpartition("/")[2]


def prefix(plan: Plan, own: str) -> str:
    """The prefix of all rails' resources on a stack whose own is `own`."""
    return resource(plan.common.rails[0], own).rpartition("/")[0]


def networks(plan: Plan, namespace: str | None = None) -> tuple[PodNetwork, ...]:
    """One network for each rail, in rail order, named as planned; inside the pod the interface has the rail's name."""
    where = namespace or plan.kubernetes.namespace
    return tuple(PodNetwork(where, rail.network, f"rail{rail.rail}") for rail in plan.common.rails)


def resources(plan: Plan, own: str) -> tuple[tuple[str, int], ...]:
    """One of each rail's resource, in rail order."""
    return tuple((resource(rail, own), 1) for rail in plan.common.rails)


def port_hcas(plan: Plan) -> tuple[Hca, ...]:
    """The ports' own RDMA devices: what a pod sees that gets the ports themselves, or shares them."""
    return tuple(Hca(rail.rdma, 1, rail.rail) for rail in plan.common.rails)
