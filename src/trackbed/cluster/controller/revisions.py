"""Good generations of a Fabric, stored as ControllerRevisions (apps/v1) for rollback, like those of a DaemonSet.

A generation is good once every node is sound at it. While annotation trackbed.dev/rollback names the Fabric's current
generation, the newest good generation before it is rolled out. The next generation ends the rollback.
"""

from http import HTTPStatus

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.metadata import ObjectMetadata
from trackbed.cluster.api.paths import join_path
from trackbed.cluster.controller.objects import FabricObject
from trackbed.cluster.resources.railnode import FABRIC_LABEL

_HISTORY_LIMIT = 5
"""Good generations that are kept."""


class _Data(msgspec.Struct):
    """The data of a ControllerRevision: the spec of a Fabric."""

    spec: msgspec.Raw


class _Revision(msgspec.Struct):
    """A ControllerRevision that stores a good generation; `revision` is the generation."""

    metadata: ObjectMetadata
    revision: int
    data: _Data


class Revisions:
    """The good generations of one Fabric."""

    def __init__(self, client: Client, namespace: str, fabric: str) -> None:
        self._client, self._namespace, self._fabric = client, namespace, fabric
        self._path = join_path("/apis/apps/v1/namespaces", namespace, "controllerrevisions")

    async def save(self, fabric: FabricObject) -> None:
        """Record the Fabric's current generation as known good; delete all but the newest. Raises KubeError."""
        name = f"{self._fabric}-{fabric.metadata.generation}"
        metadata = {"name": name, "namespace": self._namespace, "labels": {FABRIC_LABEL: self._fabric}}
        data = {"spec": msgspec.json.decode(fabric.spec)}
        kind = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": fabric.metadata.generation}
        try:
            await self._client.create(self._path, {**kind, "metadata": metadata, "data": data})
        except ApiRefusedError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
        for revision in (await self._list_revisions())[:-_HISTORY_LIMIT]:
            await self._client.delete(join_path(self._path, revision.metadata.name))

    async def read_spec_before(self, generation: int) -> msgspec.Raw | None:
        """Return the spec of the newest good generation before this one; None if there is none. Raises KubeError."""
        earlier = [revision for revision in await self._list_revisions() if revision.revision < generation]
        return earlier[-1].data.spec if earlier else None

    async def _list_revisions(self) -> list[_Revision]:
        """Return the stored generations, oldest first. Raises KubeError."""
        selector = f"{FABRIC_LABEL}={self._fabric}"
        revisions = [item async for item in self._client.iter_objects(self._path, _Revision, labelSelector=selector)]
        return sorted(revisions, key=lambda revision: revision.revision)
