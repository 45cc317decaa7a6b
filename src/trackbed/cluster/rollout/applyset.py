"""An installation as an ApplySet, in the form of `kubectl apply --applyset` (KEP-3659).

Every member has the label `applyset.kubernetes.io/part-of`. The parent, a ConfigMap, names the kinds and namespaces of
members, so that stale members are found without searching the whole cluster; objects without the label are never
touched. Before objects are applied the parent names old and new kinds, afterwards only those that are left: after an
interrupted run the next one finds every member.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from trackbed.cluster.api.response import Object
from trackbed.fabric.plan.plan import Plan

_PREFIX = "applyset.kubernetes.io"
ID = f"{_PREFIX}/id"
PART_OF = f"{_PREFIX}/part-of"
TOOLING = f"{_PREFIX}/tooling"
KINDS, NAMESPACES = f"{_PREFIX}/contains-group-kinds", f"{_PREFIX}/additional-namespaces"
TOOLING_NAME = "trackbed/v1alpha1"


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

    def parent(self, kinds: Iterable[str], namespaces: Iterable[str]) -> Object:
        """Return the ConfigMap that names the kinds and namespaces of members."""
        others = sorted(set(namespaces) - {self.namespace, ""})
        annotations = {TOOLING: TOOLING_NAME, KINDS: ",".join(sorted(set(kinds)))}
        annotations |= {NAMESPACES: ",".join(others)} if others else {}
        labels = {ID: self.id}
        metadata = {"name": self.name, "namespace": self.namespace, "labels": labels, "annotations": annotations}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def build_applyset(plan: Plan, stack: str) -> ApplySet:
    """Return the set of a stack's objects for a plan's fabric: the same for the command and the controller."""
    return ApplySet(f"trackbed-{plan.common.fabric}-{stack}", plan.kubernetes.namespace)


def compute_id(name: str, namespace: str, kind: str) -> str:
    """Return the id of a set by its parent, of the core group (KEP-3659, "ApplySet ID")."""
    digest = hashlib.sha256(f"{name}.{namespace}.{kind}.".encode()).digest()
    return f"applyset-{base64.urlsafe_b64encode(digest).decode().rstrip('=')}-v1"


def format_group_kind(body: Object) -> str:
    """Return an object's kind as annotations have it."""
    return locate(body).group_kind


def locate(body: Object) -> ObjectKey:
    """Return the key of an object."""
    metadata = body["metadata"]
    return ObjectKey(
        body["apiVersion"].rpartition("/")[0], body["kind"], metadata.get("namespace", ""), metadata["name"]
    )
