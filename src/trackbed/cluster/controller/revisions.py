"""Good generations of a Fabric, kept so that it can go back to one: ControllerRevisions (apps/v1), as a DaemonSet does.

A generation is good once every node was sound with it. A Fabric whose annotation trackbed.dev/rollback names its own
generation is carried out as the newest good one before; with its next generation that is over.
"""

from __future__ import annotations

from http import HTTPStatus

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.metadata import ObjectMetadata
from trackbed.cluster.controller.objects import FabricObject
from trackbed.cluster.resources.railnode import FABRIC_LABEL

_KEPT = 5


class _Data(msgspec.Struct):
    spec: msgspec.Raw


class _Revision(msgspec.Struct):
    metadata: ObjectMetadata
    revision: int
    data: _Data


class Revisions:
    """The good generations of one Fabric."""

    def __init__(self, client: Client, namespace: str, fabric: str) -> None:
        self._client, self._fabric = client, fabric
        self._all = f"/apis/apps/v1/namespaces/{namespace}/controllerrevisions"
        self._namespace = namespace

    async def keep(self, fabric: FabricObject) -> None:
        """Keep this generation as a good one, and forget all but the newest few. Raises KubeError."""
        name = f"{self._fabric}-{fabric.metadata.generation}"
        metadata = {"name": name, "namespace": self._namespace, "labels": {FABRIC_LABEL: self._fabric}}
        data = {"spec": msgspec.json.decode(fabric.spec)}
        kind = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": fabric.metadata.generation}
        try:
            await self._client.create(self._all, {**kind, "metadata": metadata, "data": data})
        except ApiRefusedError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
        for old in (await self._listed())[:-_KEPT]:
            await self._forget(old.metadata.name)

    async def before(self, generation: int) -> msgspec.Raw | None:
        """The spec of the newest good generation before this one; None where none was kept. Raises KubeError."""
        found = [one for one in await self._listed() if one.revision < generation]
        return found[-1].data.spec if found else None

    async def _listed(self) -> list[_Revision]:
        selector = f"{FABRIC_LABEL}={self._fabric}"
        revisions = [item async for item in self._client.list(self._all, _Revision, labelSelector=selector)]
        return sorted(revisions, key=lambda revision: revision.revision)

    async def _forget(self, name: str) -> None:
        try:
            await self._client.delete(f"{self._all}/{name}")
        except ApiRefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
