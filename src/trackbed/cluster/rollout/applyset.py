"""An installation as an ApplySet, in the format of `kubectl apply --applyset` (KEP-3659).

Every member has the label `applyset.kubernetes.io/part-of`. The parent, a ConfigMap, lists the kinds and namespaces of
members, so that stale members are found without a search of the whole cluster. Objects without the label are never
changed. Before a run the parent lists old and new kinds, after it only the remaining kinds. So the run after an
interrupted one finds every member.
"""

import base64
import hashlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import UnknownKindError
from trackbed.cluster.api.response import Object
from trackbed.fabric.plan.plan import Plan

_PREFIX = "applyset.kubernetes.io"
_ID = f"{_PREFIX}/id"
PART_OF = f"{_PREFIX}/part-of"
"""Label of a member; its value is the id of the set."""
_TOOLING = f"{_PREFIX}/tooling"
_KINDS, _NAMESPACES = f"{_PREFIX}/contains-group-kinds", f"{_PREFIX}/additional-namespaces"
_TOOLING_NAME = "trackbed/v1alpha1"


class ObjectKey(NamedTuple):
    """Identity of an object in all its API versions; `namespace` is empty for a cluster-scoped kind."""

    group: str
    kind: str
    namespace: str
    name: str

    @property
    def group_kind(self) -> str:
        """The kind in the format of the parent's annotation, such as Deployment.apps or ConfigMap."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


@dataclass(frozen=True, slots=True)
class ApplySet:
    """One installation, identified by its parent's name and namespace."""

    name: str
    namespace: str

    @property
    def id(self) -> str:
        """The id of the set: a hash of the parent's name and namespace."""
        return compute_applyset_id(self.name, self.namespace, "ConfigMap")

    def add_label(self, body: Object) -> Object:
        """Return a copy of an object with the set's label."""
        metadata = body["metadata"]
        return {**body, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), PART_OF: self.id}}}

    def build_parent(self, kinds: Iterable[str], namespaces: Iterable[str]) -> Object:
        """Return the parent: the ConfigMap that lists the kinds and namespaces of members."""
        others = sorted(set(namespaces) - {self.namespace, ""})
        annotations = {_TOOLING: _TOOLING_NAME, _KINDS: ",".join(sorted(set(kinds)))}
        annotations |= {_NAMESPACES: ",".join(others)} if others else {}
        labels = {_ID: self.id}
        metadata = {"name": self.name, "namespace": self.namespace, "labels": labels, "annotations": annotations}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def build_applyset(plan: Plan, stack: str) -> ApplySet:
    """Return the set of a stack's objects for a plan; command line and controller use the same set."""
    return ApplySet(f"trackbed-{plan.common.fabric}-{stack}", plan.kubernetes.namespace)


def compute_applyset_id(name: str, namespace: str, kind: str) -> str:
    """Return the id of a set by its parent, an object of the core group (KEP-3659, "ApplySet ID")."""
    digest = hashlib.sha256(f"{name}.{namespace}.{kind}.".encode()).digest()
    return f"applyset-{base64.urlsafe_b64encode(digest).decode().rstrip('=')}-v1"


def to_object_key(body: Object) -> ObjectKey:
    """Return the key that identifies an object."""
    metadata = body["metadata"]
    return ObjectKey(
        body["apiVersion"].rpartition("/")[0], body["kind"], metadata.get("namespace", ""), metadata["name"]
    )


async def iter_applysets(client: DynamicClient) -> AsyncIterator[ApplySet]:
    """Yield every installation of Trackbed in the cluster, found by its parent. Raises KubeError."""
    async for parent in client.iter_objects("v1", "ConfigMap", selector=_ID):
        if parent["metadata"].get("annotations", {}).get(_TOOLING) == _TOOLING_NAME:
            yield ApplySet(parent["metadata"]["name"], parent["metadata"]["namespace"])


async def find_applyset(client: DynamicClient, set_id: str) -> ApplySet | None:
    """Return the set of an id by its parent; None if no ConfigMap is its parent. Raises KubeError."""
    async for parent in client.iter_objects("v1", "ConfigMap", selector=f"{_ID}={set_id}"):
        applyset = ApplySet(parent["metadata"]["name"], parent["metadata"]["namespace"])
        if applyset.id == set_id:
            return applyset
    return None


class ApplySetScope(NamedTuple):
    """The kinds and the namespaces that may have members of a set."""

    kinds: frozenset[str]
    """Kinds in the format of `ObjectKey.group_kind`."""
    namespaces: frozenset[str]


async def read_scope(client: DynamicClient, applyset: ApplySet) -> ApplySetScope:
    """Return the kinds and the namespaces that the parent lists, and the set's own namespace. Raises KubeError.

    Without a parent there are no kinds.
    """
    parent = await client.find("v1", "ConfigMap", applyset.name, applyset.namespace)
    if parent is None:
        return ApplySetScope(frozenset(), frozenset({applyset.namespace}))
    annotations = parent["metadata"].get("annotations", {})
    kinds, others = (frozenset(filter(None, annotations.get(key, "").split(","))) for key in (_KINDS, _NAMESPACES))
    return ApplySetScope(kinds, others | {applyset.namespace})


async def iter_members(client: DynamicClient, applyset: ApplySet) -> AsyncIterator[Object]:
    """Yield all members of a set, of every kind that its parent lists and the server serves. Raises KubeError."""
    kinds, namespaces = await read_scope(client, applyset)
    for kind in sorted(kinds):
        try:
            resource = await client.resolve_kind(kind)
        except UnknownKindError:
            continue  # its CRD is gone, and all its objects with it
        selector = f"{PART_OF}={applyset.id}"
        for namespace in sorted(namespaces) if resource.namespaced else [None]:
            async for member in client.iter_objects(
                resource.group_version, resource.kind, namespace, selector=selector
            ):
                yield member


async def find_live_object(client: DynamicClient, body: Object) -> Object | None:
    """Return an object as it is in the cluster; None if it does not exist. Raises UnknownKindError, KubeError."""
    metadata = body["metadata"]
    return await client.find(body["apiVersion"], body["kind"], metadata["name"], metadata.get("namespace"))
