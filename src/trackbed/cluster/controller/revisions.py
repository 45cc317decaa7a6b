"""Good generations of a Fabric, stored as ControllerRevisions (apps/v1) for rollback, like those of a DaemonSet.

A generation is good once every node is sound at it. While annotation trackbed.dev/rollback names the Fabric's current
generation, the newest good generation before it is rolled out. The next generation ends the rollback.

Generations start at 1 again when a Fabric is deleted and created under the same name; those of the deleted Fabric do
not count. A revision has an ownerReference to its Fabric, so garbage collection deletes it with the Fabric. Earlier
versions of the controller wrote none: a revision without one belongs to the Fabric unless it is older than the Fabric.
"""

from collections.abc import Iterable
from http import HTTPStatus

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.metadata import ObjectMetadata
from trackbed.cluster.api.paths import join_path
from trackbed.cluster.api.response import Object
from trackbed.cluster.controller.objects import FabricObject
from trackbed.cluster.resources.railnode import API_VERSION, FABRIC_LABEL

_HISTORY_LIMIT = 5
"""Good generations that are kept."""


class _Data(msgspec.Struct):
    """The data of a ControllerRevision: the spec of a Fabric."""

    spec: msgspec.Raw


class _FabricReference(msgspec.Struct, frozen=True):
    """The ownerReference of a revision: the UID of its Fabric."""

    uid: str


class _RevisionMetadata(ObjectMetadata, frozen=True, rename="camel"):
    """Metadata of a revision."""

    creation_timestamp: str = ""
    owner_references: tuple[_FabricReference, ...] = ()


class _Revision(msgspec.Struct):
    """A ControllerRevision that stores a good generation; `revision` is the generation."""

    metadata: _RevisionMetadata
    revision: int
    data: _Data

    def belongs_to(self, fabric: FabricObject) -> bool:
        """Return whether it stores a generation of this Fabric, not of a deleted one of the same name."""
        if owners := self.metadata.owner_references:
            return any(owner.uid == fabric.metadata.uid for owner in owners)
        return self.metadata.creation_timestamp >= fabric.metadata.creation_timestamp


class Revisions:
    """The good generations of one Fabric."""

    def __init__(self, client: Client, namespace: str, fabric: str) -> None:
        self._client, self._namespace, self._fabric = client, namespace, fabric
        self._path = join_path("/apis/apps/v1/namespaces", namespace, "controllerrevisions")

    async def save(self, fabric: FabricObject) -> None:
        """Record the Fabric's current generation as known good; delete all but the newest. Raises KubeError."""
        stored = await self._list_revisions()
        await self._delete_revisions(revision for revision in stored if not revision.belongs_to(fabric))
        try:
            await self._client.create(self._path, self._build_revision(fabric))
        except ApiRefusedError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
        stored = [revision for revision in await self._list_revisions() if revision.belongs_to(fabric)]
        await self._delete_revisions(stored[:-_HISTORY_LIMIT])

    async def read_spec_before(self, fabric: FabricObject) -> msgspec.Raw | None:
        """Return the spec of the Fabric's newest good generation before its current one; None if there is none.

        Raises KubeError.
        """
        stored = [revision for revision in await self._list_revisions() if revision.belongs_to(fabric)]
        earlier = [revision for revision in stored if revision.revision < fabric.metadata.generation]
        return earlier[-1].data.spec if earlier else None

    def _build_revision(self, fabric: FabricObject) -> Object:
        """Return the ControllerRevision of the Fabric's current generation.

        Its ownerReference has no blockOwnerDeletion, for which the controller would need a right on finalizers
        (admission plugin OwnerReferencesPermissionEnforcement).
        """
        generation = fabric.metadata.generation
        owner = {"apiVersion": API_VERSION, "kind": "Fabric", "name": self._fabric, "uid": fabric.metadata.uid}
        metadata = {
            "name": f"{self._fabric}-{generation}",
            "namespace": self._namespace,
            "labels": {FABRIC_LABEL: self._fabric},
            "ownerReferences": [{**owner, "controller": True}],
        }
        kind = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata, "revision": generation}
        return {**kind, "data": {"spec": msgspec.json.decode(fabric.spec)}}

    async def _delete_revisions(self, revisions: Iterable[_Revision]) -> None:
        for revision in revisions:
            await self._client.delete(join_path(self._path, revision.metadata.name))

    async def _list_revisions(self) -> list[_Revision]:
        """Return the stored generations of all Fabrics of this name, oldest first. Raises KubeError."""
        selector = f"{FABRIC_LABEL}={self._fabric}"
        revisions = [item async for item in self._client.iter_objects(self._path, _Revision, labelSelector=selector)]
        return sorted(revisions, key=lambda revision: revision.revision)
