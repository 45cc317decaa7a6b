"""Releases of Kubernetes that removed versions of its kinds (kubernetes.io, "Deprecated API Migration Guide").

A file may say by its path for which release it is, as `multus-daemonset-pre-1.16.yml` and `deploy/kubernetes-1.20/` do.
"""

import re
from pathlib import PurePath

_ANY = ""
"""Stands for all kinds of a version."""
_REMOVED = {
    ("apps/v1beta1", _ANY): 16,
    ("apps/v1beta2", _ANY): 16,
    ("extensions/v1beta1", _ANY): 16,
    ("extensions/v1beta1", "Ingress"): 22,
    ("admissionregistration.k8s.io/v1beta1", "MutatingWebhookConfiguration"): 22,
    ("admissionregistration.k8s.io/v1beta1", "ValidatingWebhookConfiguration"): 22,
    ("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition"): 22,
    ("apiregistration.k8s.io/v1beta1", "APIService"): 22,
    ("certificates.k8s.io/v1beta1", "CertificateSigningRequest"): 22,
    ("coordination.k8s.io/v1beta1", "Lease"): 22,
    ("networking.k8s.io/v1beta1", "Ingress"): 22,
    ("networking.k8s.io/v1beta1", "IngressClass"): 22,
    ("rbac.authorization.k8s.io/v1beta1", _ANY): 22,
    ("scheduling.k8s.io/v1beta1", "PriorityClass"): 22,
    ("storage.k8s.io/v1beta1", _ANY): 22,
    ("storage.k8s.io/v1beta1", "CSIStorageCapacity"): 27,
    ("autoscaling/v2beta1", _ANY): 25,
    ("batch/v1beta1", "CronJob"): 25,
    ("discovery.k8s.io/v1beta1", "EndpointSlice"): 25,
    ("events.k8s.io/v1beta1", "Event"): 25,
    ("node.k8s.io/v1beta1", "RuntimeClass"): 25,
    ("policy/v1beta1", _ANY): 25,
    ("autoscaling/v2beta2", _ANY): 26,
    ("flowcontrol.apiserver.k8s.io/v1beta1", _ANY): 26,
    ("flowcontrol.apiserver.k8s.io/v1beta2", _ANY): 29,
    ("flowcontrol.apiserver.k8s.io/v1beta3", _ANY): 32,
}
"""API version and kind -> the minor number of the release from which on no API server has them."""
_RELEASE = re.compile(r"(?:pre|before|until|k8s|kube|kubernetes)[-_.]?v?1\.(\d{1,2})(?![\d.]*\d)", re.IGNORECASE)


def find_removal(api_version: str, kind: str) -> int | None:
    """Return the minor number of the release that removed a version of a kind; None if it is not known."""
    return _REMOVED.get((api_version, kind)) or _REMOVED.get((api_version, _ANY))


def is_for_older_release(file: str, removal: int) -> bool:
    """Return whether the path of a file names a release of Kubernetes that is no newer than the one that removed it."""
    named = [int(minor) for part in PurePath(file).parts for minor in _RELEASE.findall(part)]
    return bool(named) and max(named) <= removal
