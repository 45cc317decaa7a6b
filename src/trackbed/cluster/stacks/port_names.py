"""Whether a rail's port has one name on all nodes: objects that name a port instead of its PCI address need that."""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.cluster.stacks.groups import groups
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan


def unlike_names(plan: Plan, kind: str) -> Iterator[Problem]:
    """A problem where a rail's port is called this on some nodes and that on others; `kind` names the object."""
    found = groups(plan)
    for rail in plan.common.rails:
        names = sorted({port.netdev for group in found for port in group.ports if port.rail == rail.rail})
        if len(names) > 1:
            message = (
                f"{kind} names a rail's port, and rail {rail.rail} is called {' here and '.join(names)} there: write "
                "PCI or MAC addresses instead of names in ports, so that names.netdev holds on all nodes"
            )
            yield Problem("stack-port-names", message, ("spec", "nodes"))
            return
