"""The link layer of stacks that are for one link layer only."""

from collections.abc import Iterator

from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan


def check_link_type(plan: Plan, link_type: str, message: str) -> Iterator[Problem]:
    """Yield a problem with the message if the plan has another link type."""
    if plan.common.link_type != link_type:
        yield Problem("stack-link-type", message, ("spec", "linkType"))


def change_link_type(plan: Plan, link_type: str) -> Plan:
    """Return the plan with a link type, to find the reasons that would remain with it."""
    return plan._replace(common=plan.common._replace(link_type=link_type))
