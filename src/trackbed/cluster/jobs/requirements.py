"""Requirements of pods that use rails, computed from a stack and a plan."""

from collections.abc import Callable, Collection, Iterable

import msgspec

from trackbed.cluster.stacks import groups, nccl
from trackbed.cluster.stacks.access import Access, PodNetwork
from trackbed.cluster.stacks.stack import Stack
from trackbed.fabric.gpus import GPU_RESOURCE
from trackbed.fabric.plan.plan import Plan


class ExcludedRails(msgspec.Struct, frozen=True):
    """The fabric's rails that pods shall not have: resources, networks and claim templates of these rails alone."""

    resources: frozenset[str] = frozenset()
    networks: tuple[PodNetwork, ...] = ()
    claim_templates: frozenset[str] = frozenset()


class PodRequirements(msgspec.Struct, frozen=True):
    """Requirements of a pod that uses rails, independent of the kind of job."""

    access: Access
    variables: tuple[tuple[str, str], ...] = ()
    """Environment variables of the container that uses the GPUs: the fabric's, overridden by the stack's."""
    selector: tuple[tuple[str, str], ...] = ()
    """Labels of the nodes that have the rails."""
    shares_ports: bool = False
    """Whether several pods have interfaces on one RoCE port, whose GIDs are all in one table."""
    excluded: ExcludedRails = ExcludedRails()
    """What pods have of rails that these pods shall not have."""
    gpu_resource: str = GPU_RESOURCE
    """Extended resource by which the pods ask for GPUs."""
    known_gpus: tuple[tuple[str, int], ...] = ()
    """Resources of all nodes' GPUs, each with the most that a node has; empty unless they are known of every node."""
    all_gpus: tuple[tuple[str, int], ...] = ()
    """The same resources, each with the number that all nodes have together."""

    @property
    def has_rails(self) -> bool:
        """Whether the stack gives rails to pods; false for a stack without Kubernetes, such as bare-metal."""
        access = self.access
        return bool(access.networks or access.resources or access.claims or access.annotations or access.host_network)


def build_requirements(stack: Stack, plan: Plan, rail_numbers: Collection[int] | None = None) -> PodRequirements:
    """Return the requirements of pods on a stack; the stack must accept the plan.

    `rail_numbers` are the rails of the pods, None for all. Raises ValueError if it is empty or has an unknown rail.
    """
    pod_plan = plan if rail_numbers is None else narrow_plan(plan, rail_numbers)
    access = stack.access(pod_plan)
    socket_ifname = {"socket_ifname": nccl.build_host_socket_ifname(plan)} if access.host_network else {}
    node_labels = tuple(groups.get_node_labels(plan).items()) if stack.labels_nodes else ()
    fabric_variables = nccl.build_variables(pod_plan, access.hcas, **socket_ifname)
    variables = tuple(merge_variables(fabric_variables, access).items())
    shares_ports = plan.common.pod_mode == "macvlan" and plan.common.link_type == "ethernet"
    return PodRequirements(
        access,
        variables,
        node_labels,
        shares_ports=shares_ports and not access.host_network,
        excluded=_find_excluded_rails(stack, plan, pod_plan),
        gpu_resource=plan.kubernetes.gpu_resource,
        known_gpus=tuple(_count_known_gpus(plan, max).items()),
        all_gpus=tuple(_count_known_gpus(plan, sum).items()),
    )


def _find_excluded_rails(stack: Stack, plan: Plan, pod_plan: Plan) -> ExcludedRails:
    """Return what belongs to the rails of the fabric that are not in the pods' plan."""
    access = stack.access(pod_plan)
    others = {rail.rail for rail in plan.common.rails} - {rail.rail for rail in pod_plan.common.rails}
    if not others:
        return ExcludedRails()
    whole, other_access = stack.access(plan), stack.access(narrow_plan(plan, others))
    resources = {name for name, _ in access.resources}
    networks = {(network.namespace, network.name) for network in access.networks}
    return ExcludedRails(
        frozenset(name for name, _ in whole.resources if name not in resources),
        tuple(network for network in whole.networks if (network.namespace, network.name) not in networks),
        frozenset(name for claim in (*whole.claims, *other_access.claims) for name in claim.templates),
    )


def _count_known_gpus(plan: Plan, count: Callable[[Iterable[int]], int]) -> dict[str, int]:
    """Return `count` of the nodes' GPUs by resource, where the Fabric or the catalogue says them of every node."""
    counts: dict[str, list[int]] = {}
    for node in plan.nodes:
        if node.name not in plan.gpu_resources:
            return {}
        counts.setdefault(plan.gpu_resources[node.name], []).append(node.count_gpus())
    return {name: count(numbers) for name, numbers in counts.items()}


def merge_variables(fabric_variables: dict[str, str], access: Access) -> dict[str, str]:
    """Return the fabric's environment variables, overridden by the stack's; an empty value removes a variable."""
    return {name: value for name, value in {**fabric_variables, **dict(access.env)}.items() if value}


def narrow_plan(plan: Plan, rail_numbers: Collection[int]) -> Plan:
    """Return the plan reduced to some rails, in rail order; rails keep their numbers.

    Raises ValueError if `rail_numbers` is empty or has an unknown rail.
    """
    all_rails = {rail.rail for rail in plan.common.rails}
    pod_rails = set(rail_numbers)
    if not pod_rails or not pod_rails <= all_rails:
        raise ValueError(f"rails {sorted(pod_rails)} of {sorted(all_rails)}")
    if pod_rails == all_rails:
        return plan
    rail_plans = tuple(rail for rail in plan.common.rails if rail.rail in pod_rails)
    common = plan.common._replace(rails=rail_plans, narrowed=True)
    nodes = tuple(
        node._replace(ports=tuple(port for port in node.ports if port.rail in pod_rails), common=common)
        for node in plan.nodes
    )
    return plan._replace(common=common, nodes=nodes)
