"""Pods asked to leave a node, by eviction (policy/v1), so that every PodDisruptionBudget is respected.

Pods of a DaemonSet and mirrors of static pods stay, as with `kubectl drain`: they would come back at once, or cannot
go. So does a pod that tolerates our taint by name: it says that it may be there while the node is prepared, as this
controller itself must where all nodes are prepared at once. Finished pods are no hindrance.
"""

from __future__ import annotations

import msgspec

from trackbed.cluster.api.errors import RefusedError
from trackbed.cluster.api.live import Live
from trackbed.cluster.controller.metrics import EVICTIONS_REFUSED
from trackbed.cluster.resources.railnode import TAINT

_MIRROR = "kubernetes.io/config.mirror"
_NOT_FOUND, _BUDGET = 404, 429
_ENDED = frozenset({"Succeeded", "Failed"})


class _Owner(msgspec.Struct):
    kind: str


class _Annotations(msgspec.Struct):
    mirror: str | None = msgspec.field(default=None, name=_MIRROR)


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    owner_references: tuple[_Owner, ...] = ()
    annotations: _Annotations = msgspec.field(default_factory=_Annotations)
    deletion_timestamp: str | None = None


class _Toleration(msgspec.Struct):
    key: str = ""


class _Spec(msgspec.Struct):
    tolerations: tuple[_Toleration, ...] = ()


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Pods(msgspec.Struct):
    items: list[_Pod] | None = None


async def leave_node(live: Live, node: str) -> tuple[str, ...]:
    """Ask all pods of a node that can leave to do so; who is still there, and why. KubeError where nobody answers."""
    told = await live.get("/api/v1/pods", _Pods, fieldSelector=f"spec.nodeName={node}")
    staying = [pod for pod in told.items or () if _hinders(pod)]
    return tuple([await _evict(live, pod) for pod in staying])


def _hinders(pod: _Pod) -> bool:
    owned = any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)
    stays = any(one.key == TAINT for one in pod.spec.tolerations)
    return not (owned or stays or pod.metadata.annotations.mirror is not None or pod.status.phase in _ENDED)


async def _evict(live: Live, pod: _Pod) -> str:
    """Evict a pod, unless it is leaving; what keeps it."""
    called = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if pod.metadata.deletion_timestamp:
        return f"{called} is ending"
    name = {"name": pod.metadata.name, "namespace": pod.metadata.namespace}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": name}
    try:
        path = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}/eviction"
        await live.create(path, eviction)
    except RefusedError as error:
        if error.status == _NOT_FOUND:
            return f"{called} has gone"
        if error.status != _BUDGET:
            raise
        EVICTIONS_REFUSED.inc()
        return f"{called}: {error.message}"
    return f"{called} is asked to leave"
