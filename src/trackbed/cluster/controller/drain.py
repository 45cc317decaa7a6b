"""Eviction (policy/v1) of the pods of a node, so that every PodDisruptionBudget is respected.

As with `kubectl drain`, pods of a DaemonSet and mirrors of static pods are left: they would be recreated at once, or
cannot be evicted. Pods that tolerate our taint by name are left too, such as this controller itself, which must run
while all nodes are prepared at once. Finished pods are ignored.
"""

from http import HTTPStatus

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.metadata import ObjectMetadata
from trackbed.cluster.controller.metrics import EVICTIONS_REFUSED
from trackbed.cluster.resources.railnode import TAINT

_MIRROR = "kubernetes.io/config.mirror"
_ENDED = frozenset({"Succeeded", "Failed"})


class _OwnerReference(msgspec.Struct, frozen=True):
    kind: str


class _PodAnnotations(msgspec.Struct, frozen=True):
    mirror: str | None = msgspec.field(default=None, name=_MIRROR)


class _PodMetadata(ObjectMetadata, frozen=True, rename="camel"):
    owner_references: tuple[_OwnerReference, ...] = ()
    annotations: _PodAnnotations = _PodAnnotations()


class _Toleration(msgspec.Struct, frozen=True):
    key: str = ""


class _PodSpec(msgspec.Struct, frozen=True):
    tolerations: tuple[_Toleration, ...] = ()


class _PodStatus(msgspec.Struct, frozen=True):
    phase: str = ""


class _Pod(msgspec.Struct, frozen=True):
    metadata: _PodMetadata
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


async def evict_pods(client: Client, node: str) -> tuple[str, ...]:
    """Evict all pods of a node that can leave; return the pods that remain, each with the reason. Raises KubeError."""
    pods = client.list("/api/v1/pods", _Pod, fieldSelector=f"spec.nodeName={node}")
    remaining = [pod async for pod in pods if _must_leave(pod)]
    return tuple([await _evict(client, pod) for pod in remaining])


def _must_leave(pod: _Pod) -> bool:
    is_owned = any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)
    is_tolerant = any(toleration.key == TAINT for toleration in pod.spec.tolerations)
    return not (is_owned or is_tolerant or pod.metadata.annotations.mirror is not None or pod.status.phase in _ENDED)


async def _evict(client: Client, pod: _Pod) -> str:
    """Evict a pod, unless it is leaving; return its state in words."""
    if pod.metadata.deletion_timestamp:
        return f"{pod.metadata.key} is ending"
    name = {"name": pod.metadata.name, "namespace": pod.metadata.namespace}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": name}
    try:
        path = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}/eviction"
        await client.create(path, eviction)
    except ApiRefusedError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return f"{pod.metadata.key} has gone"
        if error.status != HTTPStatus.TOO_MANY_REQUESTS:
            raise
        EVICTIONS_REFUSED.inc()
        return f"{pod.metadata.key}: {error.message}"
    return f"{pod.metadata.key} is asked to leave"
