"""A plan with fewer rails, as one pod has it. Nothing is numbered anew: rail 4 of eight stays rail 4."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Collection

    from trackbed.fabric.plan.plan import Plan


def narrow_plan(plan: Plan, rails: Collection[int]) -> Plan:
    """The plan with these rails alone, in rail order; the same plan if they are all.

    Raises ValueError if there are none, or one is no rail of the plan.
    """
    every = {rail.rail for rail in plan.common.rails}
    wanted = set(rails)
    if not wanted or not wanted <= every:
        raise ValueError(f"rails {sorted(wanted)} of {sorted(every)}")
    if wanted == every:
        return plan
    kept = tuple(rail for rail in plan.common.rails if rail.rail in wanted)
    common = replace(plan.common, rails=kept, narrowed=True)
    nodes = tuple(
        replace(node, ports=tuple(port for port in node.ports if port.rail in wanted), common=common)
        for node in plan.nodes
    )
    return replace(plan, common=common, nodes=nodes)
