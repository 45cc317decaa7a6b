"""Good generations of a Fabric, kept so that it can go back to one: ControllerRevisions (apps/v1), as a DaemonSet does.

A generation is good once every node was sound with it. A Fabric whose annotation trackbed.dev/rollback names its own
generation is carried out as the newest good one before; with its next generation that is over.
"""

from __future__ import annotations

import msgspec

from trackbed.cluster.api.errors import RefusedError
from trackbed.cluster.api.live import Live
from trackbed.cluster.controller.objects import Fabric
from trackbed.cluster.resources.railnode import FABRIC_LABEL

_KEPT = 5
_EXISTS, _NOT_FOUND = 409, 404


class _Meta(msgspec.Struct):
    name: str


class _Data(msgspec.Struct):
    spec: msgspec.Raw


class _Revision(msgspec.Struct):
    metadata: _Meta
    revision: int
    data: _Data


class _Revisions(msgspec.Struct):
    items: list[_Revision] | None = None


class Revisions:
    """The good generations of one Fabric."""

    def __init__(self, live: Live, namespace: str, fabric: str) -> None:
        self._live, self._fabric = live, fabric
        self._all = f"/apis/apps/v1/namespaces/{namespace}/controllerrevisions"
        self._namespace = namespace

    async def keep(self, fabric: Fabric) -> None:
        """Keep this generation as a good one, and forget all but the newest few. Raises KubeError."""
        name = f"{self._fabric}-{fabric.metadata.generation}"
        metadata = {"name": name, "namespace": self._namespace, "labels": {FABRIC_LABEL: self._fabric}}
        data = {"spec": msgspec.json.decode(fabric.spec)}
        kind = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": fabric.metadata.generation}
        try:
            await self._live.create(self._all, {**kind, "metadata": metadata, "data": data})
        except RefusedError as error:
            if error.status != _EXISTS:
                raise
        for old in (await self._listed())[:-_KEPT]:
            await self._forget(old.metadata.name)

    async def before(self, generation: int) -> msgspec.Raw | None:
        """The spec of the newest good generation before this one; None where none was kept. Raises KubeError."""
        found = [one for one in await self._listed() if one.revision < generation]
        return found[-1].data.spec if found else None

    async def _listed(self) -> list[_Revision]:
        told = await self._live.get(self._all, _Revisions, labelSelector=f"{FABRIC_LABEL}={self._fabric}")
        return sorted(told.items or (), key=lambda one: one.revision)

    async def _forget(self, name: str) -> None:
        try:
            await self._live.delete(f"{self._all}/{name}")
        except RefusedError as error:
            if error.status != _NOT_FOUND:
                raise
