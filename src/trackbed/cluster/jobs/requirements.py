"""What a stack and a plan together want on a pod."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from trackbed.cluster.stacks import groups, nccl
from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.stack import Stack
from trackbed.fabric.plan.plan import Plan


class PodRequirements(msgspec.Struct, frozen=True):
    """What a pod with rails carries, whatever job it belongs to."""

    access: Access
    variables: tuple[tuple[str, str], ...] = ()
    """Environment of the container that uses the GPUs: the fabric's, corrected by the stack's own."""
    selector: tuple[tuple[str, str], ...] = ()
    """Labels of the nodes that have the rails."""

    @property
    def has_rails(self) -> bool:
        """Whether the stack gives pods any rails; one for machines without Kubernetes gives none."""
        access = self.access
        return bool(access.networks or access.resources or access.claims or access.annotations or access.host_network)


def build_requirements(stack: Stack, plan: Plan, rails: Collection[int] | None = None) -> PodRequirements:
    """What pods carry on this stack; the stack must not refuse the plan.

    `rails` are those that a pod gets, None for all. ValueError if there are none, or one is no rail of the plan.
    """
    part = plan if rails is None else narrow_plan(plan, rails)
    access = stack.access(part)
    where = {"bootstrap": nccl.off_rails(plan)} if access.host_network else {}
    nodes = tuple(groups.selector(plan).items()) if stack.labels_nodes else ()
    general = nccl.variables(part, access.hcas, **where)
    return PodRequirements(access, tuple(merge_variables(general, access).items()), nodes)


def merge_variables(general: dict[str, str], access: Access) -> dict[str, str]:
    """The fabric's variables with the stack's own: its value counts, and an empty one takes the variable away."""
    return {name: value for name, value in {**general, **dict(access.env)}.items() if value}


def narrow_plan(plan: Plan, rails: Collection[int]) -> Plan:
    """Return the plan with these rails alone, in rail order; rails keep their numbers.

    Raises ValueError if there are none, or one is no rail of the plan.
    """
    every = {rail.rail for rail in plan.common.rails}
    wanted = set(rails)
    if not wanted or not wanted <= every:
        raise ValueError(f"rails {sorted(wanted)} of {sorted(every)}")
    if wanted == every:
        return plan
    kept = tuple(rail for rail in plan.common.rails if rail.rail in wanted)
    common = plan.common._replace(rails=kept, narrowed=True)
    nodes = tuple(
        node._replace(ports=tuple(port for port in node.ports if port.rail in wanted), common=common)
        for node in plan.nodes
    )
    return plan._replace(common=common, nodes=nodes)
