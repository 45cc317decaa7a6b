"""An installation as an ApplySet, in the form of `kubectl apply --applyset` (KEP-3659).

Every member has the label `applyset.kubernetes.io/part-of`. The parent, a ConfigMap, names the kinds and namespaces of
members, so that stale members are found without searching the whole cluster; objects without the label are never
touched. Before objects are applied the parent names old and new kinds, afterwards only those that are left: after an
interrupted run the next one finds every member.
"""

from __future__ import annotations

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
_TOOLING = f"{_PREFIX}/tooling"
_KINDS, _NAMESPACES = f"{_PREFIX}/contains-group-kinds", f"{_PREFIX}/additional-namespaces"
_TOOLING_NAME = "trackbed/v1alpha1"


class ObjectKey(NamedTuple):
    """An object, regardless of its version; `namespace` is empty for a kind of the cluster."""

    group: str
    kind: str
    namespace: str
    name: str

    @property
    def group_kind(self) -> str:
        """The kind as annotations have it: Deployment.apps, ConfigMap."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


@dataclass(frozen=True, slots=True)
class ApplySet:
    """One installation, identified by its parent's name and namespace."""

    name: str
    namespace: str

    @property
    def id(self) -> str:
        """The id, derived from the parent, so that two sets never have the same."""
        return compute_id(self.name, self.namespace, "ConfigMap")

    def label(self, body: Object) -> Object:
        """Return an object with the set's label."""
        metadata = body["metadata"]
        return {**body, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), PART_OF: self.id}}}

    def build_parent(self, kinds: Iterable[str], namespaces: Iterable[str]) -> Object:
        """Return the ConfigMap that names the kinds and namespaces of members."""
        others = sorted(set(namespaces) - {self.namespace, ""})
        annotations = {_TOOLING: _TOOLING_NAME, _KINDS: ",".join(sorted(set(kinds)))}
        annotations |= {_NAMESPACES: ",".join(others)} if others else {}
        labels = {_ID: self.id}
        metadata = {"name": self.name, "namespace": self.namespace, "labels": labels, "annotations": annotations}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def build_applyset(plan: Plan, stack: str) -> ApplySet:
    """Return the set of a stack's objects for a plan's fabric: the same for the command and the controller."""
    return ApplySet(f"trackbed-{plan.common.fabric}-{stack}", plan.kubernetes.namespace)


def compute_id(name: str, namespace: str, kind: str) -> str:
    """Return the id of a set by its parent, of the core group (KEP-3659, "ApplySet ID")."""
    digest = hashlib.sha256(f"{name}.{namespace}.{kind}.".encode()).digest()
    return f"applyset-{base64.urlsafe_b64encode(digest).decode().rstrip('=')}-v1"


def locate(body: Object) -> ObjectKey:
    """Return the key of an object."""
    metadata = body["metadata"]
    return ObjectKey(
        body["apiVersion"].rpartition("/")[0], body["kind"], metadata.get("namespace", ""), metadata["name"]
    )


async def list_applysets(client: DynamicClient) -> AsyncIterator[ApplySet]:
    """Yield every installation of Trackbed in the cluster, by its parent."""
    async for parent in client.list("v1", "ConfigMap", selector=_ID):
        if parent["metadata"].get("annotations", {}).get(_TOOLING) == _TOOLING_NAME:
            yield ApplySet(parent["metadata"]["name"], parent["metadata"]["namespace"])


async def read_scope(client: DynamicClient, applyset: ApplySet) -> tuple[frozenset[str], frozenset[str]]:
    """Return the kinds and namespaces of members by the set's parent; its own namespace included."""
    parent = await client.find("v1", "ConfigMap", applyset.name, applyset.namespace)
    if parent is None:
        return frozenset(), frozenset({applyset.namespace})
    annotations = parent["metadata"].get("annotations", {})
    kinds, others = (frozenset(filter(None, annotations.get(key, "").split(","))) for key in (_KINDS, _NAMESPACES))
    return kinds, others | {applyset.namespace}


async def list_members(client: DynamicClient, applyset: ApplySet) -> AsyncIterator[Object]:
    """Yield all objects of the set, of every kind that its parent names and the server still serves."""
    kinds, namespaces = await read_scope(client, applyset)
    for kind in sorted(kinds):
        try:
            resource = await client.find_kind(kind)
        except UnknownKindError:
            continue  # its CRD is gone, and all its objects with it
        selector = f"{PART_OF}={applyset.id}"
        for namespace in sorted(namespaces) if resource.namespaced else [None]:
            async for member in client.list(resource.group_version, resource.kind, namespace, selector=selector):
                yield member


async def find_live(client: DynamicClient, body: Object) -> Object | None:
    """Return an object as it is in the cluster; None where it does not exist. Raises UnknownKindError."""
    metadata = body["metadata"]
    return await client.find(body["apiVersion"], body["kind"], metadata["name"], metadata.get("namespace"))
