"""Names of ports, for objects that select a port by its name instead of its PCI address."""

from collections.abc import Iterator

from trackbed.cluster.stacks.groups import group_nodes
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan, RailPlan


def find_port_name(plan: Plan, rail: RailPlan) -> str:
    """Return the name of a rail's port on the first node that has the rail.

    After `check_port_names` it is the name on all nodes.
    """
    ports = (node.find_port(rail.rail) for node in plan.nodes)
    return next((port.netdev for port in ports if port is not None), rail.netdev)


def check_port_names(plan: Plan, kind: str) -> Iterator[Problem]:
    """Yield a problem if the port of a rail has different names on different nodes.

    `kind` is the kind of object that names the port, with its article, for the message.
    """
    node_groups = group_nodes(plan)
    for rail in plan.common.rails:
        names = sorted({port.netdev for group in node_groups for port in group.ports if port.rail == rail.rail})
        if len(names) > 1:
            yield Problem(
                "stack-port-names",
                f"{kind} names a rail's port, and rail {rail.rail} is called {' here and '.join(names)} there: write "
                "PCI or MAC addresses instead of names in ports, so that names.netdev holds on all nodes",
                ("spec", "nodes"),
            )
            return
