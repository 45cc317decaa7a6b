"""Objects of an API server as documents.

The file of a place is KIND/NAMESPACE/NAME, and its line is that of the object as indented JSON.
"""

import json
from collections.abc import Iterable
from typing import Any

from trackbed.lint.document import Document
from trackbed.lint.manifests import parse_manifests
from trackbed.lint.tree import dig

LIVE_KINDS: tuple[tuple[str, str], ...] = (
    ("v1", "Pod"),
    ("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition"),
    ("spiderpool.spidernet.io/v2beta1", "SpiderIPPool"),
    ("spiderpool.spidernet.io/v2beta1", "SpiderMultusConfig"),
    ("nv-ipam.nvidia.com/v1alpha1", "IPPool"),
    ("nv-ipam.nvidia.com/v1alpha1", "CIDRPool"),
    ("mellanox.com/v1alpha1", "NicClusterPolicy"),
    ("mellanox.com/v1alpha1", "NicNodePolicy"),
    ("mellanox.com/v1alpha1", "HostDeviceNetwork"),
    ("mellanox.com/v1alpha1", "MacvlanNetwork"),
    ("mellanox.com/v1alpha1", "IPoIBNetwork"),
    ("sriovnetwork.openshift.io/v1", "SriovNetworkNodePolicy"),
    ("sriovnetwork.openshift.io/v1", "SriovNetworkPoolConfig"),
    ("sriovnetwork.openshift.io/v1", "SriovOperatorConfig"),
    ("sriovnetwork.openshift.io/v1", "SriovNetwork"),
    ("sriovnetwork.openshift.io/v1", "SriovIBNetwork"),
    ("resource.k8s.io/v1", "DeviceClass"),
    ("resource.k8s.io/v1", "ResourceClaim"),
    ("resource.k8s.io/v1", "ResourceClaimTemplate"),
    ("kueue.x-k8s.io/v1beta2", "ClusterQueue"),
    ("kueue.x-k8s.io/v1beta1", "ClusterQueue"),
    ("kueue.x-k8s.io/v1beta2", "LocalQueue"),
    ("kueue.x-k8s.io/v1beta1", "LocalQueue"),
)
"""(apiVersion, kind) of the objects that lint reads from a cluster. Kinds that the cluster does not serve are ignored;
of several versions, the first that is served is read."""


def to_documents(objects: Iterable[dict[str, Any]]) -> list[Document]:
    """Convert objects of an API server to documents. status and managedFields are left out."""
    documents: list[Document] = []
    for raw in objects:
        metadata = {key: value for key, value in (raw.get("metadata") or {}).items() if key != "managedFields"}
        manifest = {key: value for key, value in raw.items() if key not in {"status", "metadata"}} | {
            "metadata": metadata
        }
        name = "/".join(
            str(part) for part in (raw.get("kind"), dig(metadata, "namespace"), dig(metadata, "name")) if part
        )
        documents += parse_manifests(json.dumps(manifest, indent=2).encode(), name)[0]
    return documents
