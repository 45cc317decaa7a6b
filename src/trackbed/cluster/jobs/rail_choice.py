"""The rails that a job's pods have, and the nodes of a fabric that have them.

A fabric may have nodes with fewer rails. A pod that asks for all rails never starts on such a node.
"""

import re
from collections import Counter
from collections.abc import Collection

from trackbed.fabric.plan.plan import NodePlan, Plan

_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


def choose_rails(plan: Plan, text: str | None) -> tuple[int, ...]:
    """Return the rails in a text such as `0,2,4-6`, or without a text all rails of the fabric.

    Raises ValueError for other texts, and for rails that no node has together.
    """
    all_rails = tuple(rail.rail for rail in plan.common.rails)
    if text is None:
        return all_rails
    matches = [_RANGE.fullmatch(part.strip()) for part in text.split(",")]
    if not all(matches):
        raise ValueError("write numbers and ranges, such as 0,2,4-6")
    bounds = [(int(match[1]), int(match[2] or match[1])) for match in matches if match]
    numbers = {number for first, last in bounds for number in range(first, last + 1)}
    if not numbers or not numbers <= set(all_rails):
        raise ValueError(f"fabric {plan.common.fabric!r} has rails {format_rails(all_rails)}")
    if not keep_nodes(plan, numbers).nodes:
        raise ValueError("no node has all of them")
    return tuple(sorted(numbers))


def keep_nodes(plan: Plan, rails: Collection[int]) -> Plan:
    """Return the plan with only the nodes that have all of the rails."""
    return plan._replace(nodes=tuple(node for node in plan.nodes if set(rails) <= _list_rails(node)))


def describe_other_nodes(plan: Plan, rails: Collection[int]) -> str:
    """Return a warning about nodes that lack some of the rails, with counts; empty if there is none."""
    others = Counter(tuple(sorted(_list_rails(node))) for node in plan.nodes if not set(rails) <= _list_rails(node))
    if not others:
        return ""
    count = sum(others.values())
    kinds = ", ".join(f"{nodes} with rails {format_rails(held)}" for held, nodes in others.most_common())
    common = set(rails).intersection(*others)
    remedy = f"; --rails {format_rails(sorted(common))} fits all {len(plan.nodes)}" if common else ""
    fit, total = len(plan.nodes) - count, len(plan.nodes)
    return (
        f"a pod with rails {format_rails(sorted(rails))} starts on {fit} of {total} nodes, "
        f"and never on {count} ({kinds}){remedy}"
    )


def format_rails(rails: Collection[int]) -> str:
    """Return rails as text, such as `0-3,6`."""
    ranges: list[list[int]] = []
    for rail in rails:
        if ranges and rail == ranges[-1][-1] + 1:
            ranges[-1].append(rail)
        else:
            ranges.append([rail])
    return ",".join(str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}" for group in ranges)


def _list_rails(node: NodePlan) -> set[int]:
    return {port.rail for port in node.ports}
