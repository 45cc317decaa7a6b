"""Pods that keep a node from being drained: their disruption budgets allow no eviction now."""

from collections.abc import Iterator

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.response import Object

_MAX_SHOWN_PODS = 3
_REFUSAL = "Cannot evict pod as it would violate the pod's disruption budget"


async def describe_blocked_drain(client: DynamicClient, node: str) -> list[str]:
    """Return a line for each of the first pods on a node that no budget lets go. Raises KubeError.

    The list is empty if none is blocked, and if this account may not read budgets.
    """
    try:
        listing = client.iter_objects("policy/v1", "PodDisruptionBudget")
        budgets = [budget async for budget in listing if budget.get("status", {}).get("disruptionsAllowed") == 0]
    except ApiRefusedError:
        return []
    pods = [pod async for pod in client.iter_objects("v1", "Pod", fields=f"spec.nodeName={node}")] if budgets else []
    blocked = [line for budget in budgets for line in _iter_blocked_pods(budget, pods)]
    return blocked[:_MAX_SHOWN_PODS]


def _iter_blocked_pods(budget: Object, pods: list[Object]) -> Iterator[str]:
    """Yield a line for each pod that a budget covers, as the API server refuses its eviction."""
    namespace, name = budget["metadata"]["namespace"], budget["metadata"]["name"]
    for pod in pods:
        if pod["metadata"]["namespace"] == namespace and _selects(budget, pod["metadata"].get("labels") or {}):
            yield f"{_REFUSAL}: pod {namespace}/{pod['metadata']['name']}, budget {name}"


def _selects(budget: Object, labels: dict[str, str]) -> bool:
    """Return whether a budget's selector matches labels; an empty selector matches all (policy/v1)."""
    selector = budget.get("spec", {}).get("selector") or {}
    wanted = (selector.get("matchLabels") or {}).items()
    return all(labels.get(key) == value for key, value in wanted) and all(
        _matches(expression, labels) for expression in selector.get("matchExpressions") or ()
    )


def _matches(expression: Object, labels: dict[str, str]) -> bool:
    value, values = labels.get(str(expression.get("key"))), expression.get("values") or ()
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }.get(str(expression.get("operator")), False)
