"""Eviction (policy/v1) of the pods of a node, so that every PodDisruptionBudget is respected.

As with `kubectl drain`, pods of a DaemonSet are left, since they would be recreated at once; mirrors of static pods are
left, since they cannot be evicted. Pods that tolerate our taint by name are left too, such as the controller itself,
which must run even if all nodes are prepared at once. Finished pods are ignored.
"""

from http import HTTPStatus

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.metadata import ObjectMetadata
from trackbed.cluster.api.paths import join_path
from trackbed.cluster.controller.metrics import EVICTIONS_REFUSED
from trackbed.cluster.resources.railnode import TAINT

_MIRROR = "kubernetes.io/config.mirror"
_FINISHED_PHASES = frozenset({"Succeeded", "Failed"})


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
    """Evict the pods of a node; return each remaining pod with its state, as text. Raises KubeError."""
    pods = client.iter_objects("/api/v1/pods", _Pod, fieldSelector=f"spec.nodeName={node}")
    remaining = [pod async for pod in pods if _must_be_evicted(pod)]
    return tuple([await _evict_pod(client, pod) for pod in remaining])


def _must_be_evicted(pod: _Pod) -> bool:
    """Return whether a drain evicts a pod, by the rules of this module."""
    is_owned = any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)
    is_tolerant = any(toleration.key == TAINT for toleration in pod.spec.tolerations)
    return not (
        is_owned or is_tolerant or pod.metadata.annotations.mirror is not None or pod.status.phase in _FINISHED_PHASES
    )


async def _evict_pod(client: Client, pod: _Pod) -> str:
    """Evict a pod unless it is terminating; return its name and state as text."""
    if pod.metadata.deletion_timestamp:
        return f"{pod.metadata.key} is terminating"
    name = {"name": pod.metadata.name, "namespace": pod.metadata.namespace}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": name}
    try:
        path = join_path("/api/v1/namespaces", pod.metadata.namespace, "pods", pod.metadata.name, "eviction")
        await client.create(path, eviction)
    except ApiRefusedError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return f"{pod.metadata.key} is gone"
        if error.status == HTTPStatus.TOO_MANY_REQUESTS:
            EVICTIONS_REFUSED.inc()
        # A pod with two budgets is refused with status 500. No refusal keeps the other pods from their eviction.
        return f"{pod.metadata.key}: {error.message}"
    return f"{pod.metadata.key} is being evicted"
