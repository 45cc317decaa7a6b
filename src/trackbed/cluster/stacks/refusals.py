"""Why a plan cannot be had on a stack: what the stack itself says, and what holds for all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trackbed.cluster.stacks.releases import unknown_versions
from trackbed.cluster.stacks.stack import Stack
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan

_NODE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*")
"""A DNS-1123 subdomain, which is what Kubernetes takes for a node's name."""


def refusals(stack: Stack, plan: Plan) -> Iterator[Problem]:
    """Every reason; the stack may render the plan if there is none."""
    yield from unknown_versions(plan)
    if stack.labels_nodes:
        yield from _node_names(plan)
    yield from stack.refusals(plan)


def _node_names(plan: Plan) -> Iterator[Problem]:
    wrong = [node.name for node in plan.nodes if not _NODE.fullmatch(node.name)]
    if wrong:
        message = (
            f"{wrong[0]!r} is no name of a Kubernetes node ({len(wrong)} of {len(plan.nodes)} are none): lower case "
            "letters, digits, '-' and '.' (RFC 1123); write the names that `kubectl get nodes` shows"
        )
        yield Problem("node-name", message, ("spec", "nodes"))
