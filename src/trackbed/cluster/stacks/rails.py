"""Names of rails in Kubernetes: resources, networks, interfaces, RDMA devices; and the addresses of each rail."""

from collections.abc import Iterator

from trackbed.cluster.stacks.access import Hca, PodNetwork
from trackbed.fabric.plan.plan import AddressPlan, NodePlan, Plan, RailPlan

DEFAULT_PREFIX = "trackbed.dev"
"""Prefix of the default resource names. Stacks with their own prefix replace it."""


def get_resource_name(rail: RailPlan, stack_prefix: str) -> str:
    """Return the name of a rail's extended resource; a prefix in the Fabric overrides the stack's."""
    prefix, _, name = rail.resource.rpartition("/")
    return f"{stack_prefix if prefix in {'', DEFAULT_PREFIX} else prefix}/{name}"


def get_short_resource_name(rail: RailPlan) -> str:
    """Return the name of a rail's resource without its prefix, for operators and device plugins that add one."""
    return rail.resource.rpartition("/")[2]


def choose_resource_prefix(plan: Plan, stack_prefix: str) -> str:
    """Return the prefix of the resource names of all rails: the Fabric's, or else the stack's."""
    return get_resource_name(plan.common.rails[0], stack_prefix).rpartition("/")[0]


def build_networks(plan: Plan) -> tuple[PodNetwork, ...]:
    """Return the networks of a pod, one for each rail in rail order, with the interface names of `names.pod`."""
    namespace = plan.kubernetes.namespace
    return tuple(PodNetwork(namespace, rail.network, rail.pod_netdev) for rail in plan.common.rails)


def build_resources(plan: Plan, stack_prefix: str) -> tuple[tuple[str, int], ...]:
    """Return names and counts of the resources that a pod requests: one for each rail, in rail order."""
    return tuple((get_resource_name(rail, stack_prefix), 1) for rail in plan.common.rails)


def list_port_hcas(plan: Plan) -> tuple[Hca, ...]:
    """Return the ports' RDMA devices, for pods that get the ports themselves or share them."""
    return tuple(Hca(rail.rdma, 1, rail.rail) for rail in plan.common.rails)


def iter_address_blocks(plan: Plan, rail_number: int, ip_version: int) -> Iterator[tuple[NodePlan, AddressPlan]]:
    """Yield each node that has addresses of an IP version on a rail, with these addresses, in the plan's order."""
    for node in plan.nodes:
        port = node.find_port(rail_number)
        for block in port.addresses if port else ():
            if block.version == ip_version:
                yield node, block
