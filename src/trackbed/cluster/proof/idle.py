"""Nodes whose devices pods hold: a proof there would disturb a job, and get no rails.

A pod holds devices if it requests an extended resource, such as a GPU or a rail, or has a claim (DRA). The names of
extended resources have a domain that is not kubernetes.io (IsExtendedResourceName of k8s.io/component-helpers). A
request of 0 holds nothing, and no quota limits it. Pods of DaemonSets do not count: they are no jobs, and no node would
ever be idle. Nor do those that a killed run of the same proof left: they are removed before it goes on.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from trackbed.cluster.proof.objects import PROOF

if TYPE_CHECKING:
    from trackbed.cluster.api.dynamic import DynamicClient
    from trackbed.cluster.api.response import Object

_NOTHING = "0"
"""An API server writes any zero so (resource.Quantity, "canonical form")."""
_NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"


async def find_busy_nodes(client: DynamicClient, former_runs: Container[str] = ()) -> set[str]:
    """Return the names of the nodes with a pod that holds devices, and is of no former run. Raises KubeError."""
    return {
        node
        async for pod in client.iter_objects("v1", "Pod", fields=_NOT_ENDED)
        if (node := pod["spec"].get("nodeName")) and holds_devices(pod) and _get_run(pod) not in former_runs
    }


def holds_devices(pod: Object) -> bool:
    """Tell whether a pod of a job holds devices, also before its containers run."""
    if any(owner.get("kind") == "DaemonSet" for owner in pod.get("metadata", {}).get("ownerReferences") or ()):
        return False
    return bool(pod["spec"].get("resourceClaims")) or any(map(_is_extended, _iter_resources(pod)))


def _get_run(pod: Object) -> str:
    """Return the name of the proof that has a pod; empty for any other pod."""
    return str((pod.get("metadata", {}).get("labels") or {}).get(PROOF, ""))


def _iter_resources(pod: Object) -> Iterator[str]:
    for kind in ("initContainers", "containers"):
        for container in pod["spec"].get(kind) or ():
            for amounts in (container.get("resources") or {}).values():
                yield from (name for name, amount in _iter_amounts(amounts) if str(amount) != _NOTHING)


def _iter_amounts(amounts: object) -> Iterator[tuple[str, object]]:
    """Yield what limits or requests have; claims are a list."""
    yield from amounts.items() if isinstance(amounts, dict) else ()


def _is_extended(name: str) -> bool:
    domain = name.partition("/")[0]
    return "/" in name and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")
