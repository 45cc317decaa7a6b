"""The metadata fields that Trackbed reads; msgspec skips the others while decoding.

Subclasses add only the labels and annotations that a program reads: those of 10,000 nodes take tens of megabytes.
"""

import re
from typing import Final

import msgspec

_COMPARABLE: Final = re.compile(r"0|[1-9][0-9]*")
"""A resource version that can be compared with others (KEP-5504): a decimal number of any size. No object has 0."""


class ObjectMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata of an object (meta/v1, ObjectMeta), without labels and annotations."""

    name: str
    resource_version: str
    """Version of the object; `is_older` compares two of them."""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None

    @property
    def key(self) -> str:
        """NAMESPACE/NAME, or NAME for a cluster-scoped object: unique within a kind."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class PartialObject(msgspec.Struct, frozen=True):
    """An object of any kind; only its metadata is decoded."""

    metadata: ObjectMetadata


def is_older(version: str, other: str) -> bool:
    """Return whether a resource version is older than another of the same kind; False if they cannot be compared.

    Servers since Kubernetes 1.35 promise decimal numbers (KEP-5504; k8s.io/apimachinery, pkg/util/resourceversion,
    CompareResourceVersion). Earlier ones have them too, unless another server or store is behind the kind.
    """
    if not (_COMPARABLE.fullmatch(version) and _COMPARABLE.fullmatch(other)):
        return False
    return (len(version), version) < (len(other), other)
