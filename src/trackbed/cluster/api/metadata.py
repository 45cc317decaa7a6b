"""Metadata of objects, as far as Trackbed reads it; msgspec skips all other fields while decoding.

A kind whose labels or annotations are read has a subclass with these fields alone: 10,000 nodes with all of theirs
would take tens of megabytes.
"""

from __future__ import annotations

import msgspec


class ObjectMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata of an object (meta/v1, ObjectMeta)."""

    name: str
    resource_version: str
    """Version of the object: of two, the larger number is newer (KEP-5504)."""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    deletion_timestamp: str | None = None

    @property
    def key(self) -> str:
        """The name, after NAMESPACE/ where there is one: unique within a kind."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class PartialObject(msgspec.Struct, frozen=True):
    """An object of any kind, of which only the metadata is read."""

    metadata: ObjectMetadata
