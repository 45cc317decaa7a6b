"""Objects on the test's API server as operators, kubelets and controllers would leave them there."""

from __future__ import annotations

from typing import Any

from trackbed_lab.kubernetes.blocking import BlockingClient

from trackbed.cluster.api.response import Object

NAMESPACE = "gates"
GROUP = "gates.example.com"
"""Of the kinds below: the upstream ones may or may not be loaded into the same server."""
LABELS = {"app": "operator"}
_CLUSTERS = frozenset({"Node", "NicClusterPolicy", "TigeraStatus"})


def crd(plural: str, kind: str, group: str = GROUP) -> Object:
    """A kind of our own group that holds anything."""
    names = {"plural": plural, "singular": kind.lower(), "kind": kind}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema, "subresources": {"status": {}}}
    scope = "Cluster" if kind in _CLUSTERS else "Namespaced"
    spec = {"group": group, "scope": scope, "names": names, "versions": [version]}
    metadata = {"name": f"{plural}.{group}"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


def put(client: BlockingClient, kind: str, name: str, status: Any = None, **fields: Any) -> None:
    """An object with a status that its operator would write."""
    metadata = {"name": name, **({} if kind in _CLUSTERS else {"namespace": NAMESPACE}), **fields.pop("metadata", {})}
    apis = {"Node": "v1", "Pod": "v1", "Deployment": "apps/v1", "DaemonSet": "apps/v1"}
    obj = {"apiVersion": apis.get(kind, f"{GROUP}/v1"), "kind": kind, "metadata": metadata}
    client.apply({**obj, **fields}, force=True)
    if status is not None:
        head = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
        client.apply({**obj, "metadata": head, "status": status}, subresource="/status", manager="operator", force=True)


def node(
    client: BlockingClient, name: str, *, ready: bool = True, labels: dict[str, str] | None = None, **allocatable: str
) -> None:
    """A node with what it has to give, `_` for `.` before the slash."""
    reason = {} if ready else {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
    condition = {"type": "Ready", "status": "True" if ready else "Unknown", **reason}
    offered = {key.replace("_", ".", 1).replace("_", "/", 1): value for key, value in allocatable.items()}
    metadata = {"labels": labels or {}}
    put(client, "Node", name, {"conditions": [condition], "allocatable": offered}, metadata=metadata)


def template(labels: dict[str, str]) -> dict[str, Any]:
    """A pod template."""
    spec = {"containers": [{"name": "main", "image": "example.com/x:1"}], "automountServiceAccountToken": False}
    return {"metadata": {"labels": labels}, "spec": spec}


def pod(client: BlockingClient, name: str, status: Any, labels: dict[str, str] | None = None, on: str = "") -> None:
    """A pod of the operator, on a node or on none."""
    chosen = labels or LABELS
    spec = template(chosen)["spec"] | ({"nodeName": on} if on else {})
    put(client, "Pod", name, status, metadata={"labels": chosen}, spec=spec)


def waiting(reason: str, message: str) -> dict[str, Any]:
    """The status of a pod whose container does not run."""
    state = {"waiting": {"reason": reason, "message": message}}
    container = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": state}
    return {"containerStatuses": [container]}


def daemon_set(client: BlockingClient, name: str, wanted: int, new: int, available: int) -> None:
    """A DaemonSet whose controller has counted its pods."""
    labels = {"app": name}
    status = {
        "observedGeneration": 1,
        "desiredNumberScheduled": wanted,
        "currentNumberScheduled": new,
        "updatedNumberScheduled": new,
        "numberAvailable": available,
        "numberReady": available,
        "numberMisscheduled": 0,
    }
    put(client, "DaemonSet", name, status, spec={"selector": {"matchLabels": labels}, "template": template(labels)})


def failed_create(client: BlockingClient, name: str, about: dict[str, str], message: str, at: str) -> None:
    """What a controller says when it was refused a pod."""
    client.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "involvedObject": {"namespace": NAMESPACE, **about},
            "reason": "FailedCreate",
            "message": message,
            "type": "Warning",
            "lastTimestamp": at,
        }
    )
