"""Releases of Kubernetes that removed versions of its kinds (kubernetes.io, "Deprecated API Migration Guide").

A file may say by its path for which release it is: `multus-daemonset-pre-1.16.yml`, `deploy/kubernetes-1.20/`, `v1.8/`.
The configuration of kubeadm or kind says it for all files.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePath

from trackbed.lint.document import Document
from trackbed.lint.tree import enumerate_mappings

_REMOVED = {
    ("apps/v1beta1", 16): "ControllerRevision Deployment StatefulSet",
    ("apps/v1beta2", 16): "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
    ("extensions/v1beta1", 16): "DaemonSet Deployment NetworkPolicy PodSecurityPolicy ReplicaSet",
    ("extensions/v1beta1", 22): "Ingress",
    ("admissionregistration.k8s.io/v1beta1", 22): "MutatingWebhookConfiguration ValidatingWebhookConfiguration",
    ("apiextensions.k8s.io/v1beta1", 22): "CustomResourceDefinition",
    ("apiregistration.k8s.io/v1beta1", 22): "APIService",
    ("certificates.k8s.io/v1beta1", 22): "CertificateSigningRequest",
    ("coordination.k8s.io/v1beta1", 22): "Lease",
    ("networking.k8s.io/v1beta1", 22): "Ingress IngressClass",
    ("rbac.authorization.k8s.io/v1beta1", 22): "ClusterRole ClusterRoleBinding Role RoleBinding",
    ("scheduling.k8s.io/v1beta1", 22): "PriorityClass",
    ("storage.k8s.io/v1beta1", 22): "CSIDriver CSINode StorageClass VolumeAttachment",
    ("storage.k8s.io/v1beta1", 27): "CSIStorageCapacity",
    ("autoscaling/v2beta1", 25): "HorizontalPodAutoscaler",
    ("batch/v1beta1", 25): "CronJob",
    ("discovery.k8s.io/v1beta1", 25): "EndpointSlice",
    ("events.k8s.io/v1beta1", 25): "Event",
    ("node.k8s.io/v1beta1", 25): "RuntimeClass",
    ("policy/v1beta1", 25): "PodDisruptionBudget PodSecurityPolicy",
    ("autoscaling/v2beta2", 26): "HorizontalPodAutoscaler",
    ("flowcontrol.apiserver.k8s.io/v1beta1", 26): "FlowSchema PriorityLevelConfiguration",
    ("flowcontrol.apiserver.k8s.io/v1beta2", 29): "FlowSchema PriorityLevelConfiguration",
    ("flowcontrol.apiserver.k8s.io/v1beta3", 32): "FlowSchema PriorityLevelConfiguration",
}
"""API version, and the minor number of the release from which on no API server has these kinds of it."""
_REMOVALS = {(version, kind): minor for (version, minor), kinds in _REMOVED.items() for kind in kinds.split()}
_RELEASE = re.compile(
    r"(?:pre|before|until|k8s|kube|kubernetes)[-_.]?v?1\.(\d{1,2})(?![\d.]*\d)|\Av?1\.(\d{1,2})(?:\.x)?\Z",
    re.IGNORECASE,
)


_VERSION = re.compile(r"(?:.*:)?v?1\.(\d{1,2})(?:\.\d+)?(?:@.*)?")
"""Matches a version of Kubernetes, also as the tag of an image."""
_NEWEST = 1 << 10
"""Minor number for versions such as `stable`."""


def find_removal(api_version: str, kind: str) -> int | None:
    """Return the minor number of the release that removed a version of a kind; None if it is not known."""
    return _REMOVALS.get((api_version, kind))


def is_for_older_release(file: str, removal: int) -> bool:
    """Return whether the path of a file names a release of Kubernetes that is no newer than the one that removed it."""
    named = [int("".join(match)) for part in PurePath(file).parts for match in _RELEASE.findall(part)]
    return bool(named) and max(named) <= removal


def find_named_release(configurations: Iterable[Document]) -> int | None:
    """Return the minor number of the newest release that the configurations of kubeadm and kind name; None for none."""
    matches = [_VERSION.fullmatch(text) for doc in configurations for text in _iter_versions(doc)]
    return max((int(match[1]) if match else _NEWEST for match in matches), default=None)


def _iter_versions(doc: Document) -> Iterator[str]:
    if doc.group == "kubeadm.k8s.io" and doc.kind == "ClusterConfiguration":
        yield doc.get_text("kubernetesVersion") or "stable"  # kubeadm's default is the newest
    if doc.group == "kind.x-k8s.io" and doc.kind == "Cluster":
        images = [str(node["image"]) for _, node in enumerate_mappings(doc.get("nodes")) if node.get("image")]
        yield from images or ["stable"]
