"""The metadata fields that Trackbed reads; msgspec skips the others while decoding.

Subclasses add only the labels and annotations that a program reads: those of 10,000 nodes take tens of megabytes.
"""

import msgspec


class ObjectMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata of an object (meta/v1, ObjectMeta), without labels and annotations."""

    name: str
    resource_version: str
    """Version of the object; a larger number is newer (KEP-5504)."""
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
