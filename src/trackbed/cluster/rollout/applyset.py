"""Which objects of a cluster are one installation's: an ApplySet, as `kubectl apply --applyset` keeps it (KEP-3659).

Every member has the label `applyset.kubernetes.io/part-of`. The parent, a ConfigMap, says of which kinds and in which
namespaces members are, so that what is wanted no longer is found without looking through the whole cluster; nothing
without the label is ever touched. Before objects are applied the parent names old and new kinds, afterwards only those
that are left: whenever a run breaks off, the next one finds every member.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from trackbed.cluster.api.answer import Object
from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import UnknownKindError
from trackbed.fabric.plan.plan import Plan

_PREFIX = "applyset.kubernetes.io"
PART_OF = f"{_PREFIX}/part-of"
_KINDS, _NAMESPACES = f"{_PREFIX}/contains-group-kinds", f"{_PREFIX}/additional-namespaces"
_TOOLING = "trackbed/v1alpha1"

Place = tuple[str, str, str, str]
"""Which object: group, kind, namespace ("" where it is of the cluster), name."""


@dataclass(frozen=True, slots=True)
class ApplySet:
    """One installation, known by its parent's name and namespace."""

    name: str
    namespace: str

    @property
    def id(self) -> str:
        """Follows from the parent: nobody's members can be taken for another's."""
        return set_id(self.name, self.namespace, "ConfigMap")

    def member(self, one: Object) -> Object:
        """An object with the set's label."""
        metadata = one["metadata"]
        return {**one, "metadata": {**metadata, "labels": {**metadata.get("labels", {}), PART_OF: self.id}}}

    def parent(self, kinds: Iterable[str], namespaces: Iterable[str]) -> Object:
        """The ConfigMap that says where members are."""
        others = sorted(set(namespaces) - {self.namespace, ""})
        annotations = {f"{_PREFIX}/tooling": _TOOLING, _KINDS: ",".join(sorted(set(kinds)))}
        annotations |= {_NAMESPACES: ",".join(others)} if others else {}
        labels = {f"{_PREFIX}/id": self.id}
        metadata = {"name": self.name, "namespace": self.namespace, "labels": labels, "annotations": annotations}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def of_stack(plan: Plan, name: str) -> ApplySet:
    """The set of a stack's objects for a plan's fabric, whoever applies them."""
    return ApplySet(f"trackbed-{plan.common.fabric}-{name}", plan.kubernetes.namespace)


def set_id(name: str, namespace: str, kind: str) -> str:
    """The id of a set whose parent is this, of the core group (KEP-3659, "ApplySet ID")."""
    digest = hashlib.sha256(f"{name}.{namespace}.{kind}.".encode()).digest()
    return f"applyset-{base64.urlsafe_b64encode(digest).decode().rstrip('=')}-v1"


def group_kind(one: Object) -> str:
    """As annotations have it: Deployment.apps, ConfigMap."""
    group = one["apiVersion"].rpartition("/")[0]
    return f"{one['kind']}.{group}" if group else str(one["kind"])


def place(one: Object) -> Place:
    """Which object it is, whatever its version."""
    metadata = one["metadata"]
    return one["apiVersion"].rpartition("/")[0], one["kind"], metadata.get("namespace", ""), metadata["name"]


def sets(client: Client) -> Iterator[ApplySet]:
    """Every installation of ours in the cluster, by its parent."""
    for one in client.list("v1", "ConfigMap", selector=f"{_PREFIX}/id"):
        if one["metadata"].get("annotations", {}).get(f"{_PREFIX}/tooling") == _TOOLING:
            yield ApplySet(one["metadata"]["name"], one["metadata"]["namespace"])


def known(client: Client, of: ApplySet) -> tuple[frozenset[str], frozenset[str]]:
    """Kinds and namespaces of which the cluster says that members are there; the parent's own namespace included."""
    found = client.find("v1", "ConfigMap", of.name, of.namespace)
    if found is None:
        return frozenset(), frozenset({of.namespace})
    said = found["metadata"].get("annotations", {})
    kinds, others = (frozenset(filter(None, said.get(key, "").split(","))) for key in (_KINDS, _NAMESPACES))
    return kinds, others | {of.namespace}


def members(client: Client, of: ApplySet) -> Iterator[Object]:
    """All objects of the set, of every kind that its parent names and the server still serves."""
    kinds, namespaces = known(client, of)
    for kind in sorted(kinds):
        try:
            resource = client.called(kind)
        except UnknownKindError:
            continue  # its CRD is gone, and all its objects with it
        places = sorted(namespaces) if resource.namespaced else [None]
        for namespace in places:
            selector = f"{PART_OF}={of.id}"
            yield from client.list(resource.group_version, resource.kind, namespace, selector=selector)
