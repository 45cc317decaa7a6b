"""Refusals: reasons why a stack cannot implement a plan, the stack's own and those common to all stacks."""

import re
from collections.abc import Iterator

from trackbed.cluster.stacks.install.values import find_unused_values
from trackbed.cluster.stacks.releases import find_unknown_versions
from trackbed.cluster.stacks.stack import Stack
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan

_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*")
"""DNS-1123 subdomain, which Kubernetes requires for node names."""


def find_refusals(stack: Stack, plan: Plan) -> Iterator[Problem]:
    """Yield the reasons why the stack cannot implement the plan; nothing may be rendered if there are any."""
    yield from find_unknown_versions(plan)
    if stack.labels_nodes:
        yield from _check_node_names(plan)
    if plan.kubernetes.driver == "container" and not stack.deploys_driver:
        yield Problem(
            "stack-driver-container",
            f"stack {stack.name} deploys no driver container, and the GPU Operator would wait for one forever "
            "(/run/mellanox/drivers/.driver-ready): leave driver out and install the driver on the hosts, or choose a "
            "stack of the Network Operator",
            ("spec", "kubernetes", "driver"),
        )
    reasons = list(stack.refusals(plan))
    yield from reasons or find_unused_values(stack, plan)


def _check_node_names(plan: Plan) -> Iterator[Problem]:
    invalid = [node.name for node in plan.nodes if not _NODE_NAME.fullmatch(node.name)]
    if invalid:
        yield Problem(
            "node-name",
            f"{invalid[0]!r} is no name of a Kubernetes node ({len(invalid)} of {len(plan.nodes)} are none): "
            "lower case letters, digits, '-' and '.' (RFC 1123); write the names that `kubectl get nodes` shows",
            ("spec", "nodes"),
        )
