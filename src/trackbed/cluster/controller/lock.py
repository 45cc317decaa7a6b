r"""The lock of a Fabric, kept in the cluster: a ConfigMap that holds the document trackbed.lock.yaml.

A slot is written there before any RailNode has it, and only over the version that was read (409 otherwise), so two
controllers never give one slot to two nodes. Saved beside the Fabric, it is the lock that the command line reads:

    kubectl get configmap trackbed-lock-FABRIC -n NAMESPACE -o jsonpath='{.data.trackbed\.lock\.yaml}'
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import msgspec

from trackbed.cluster.api.client import Client, Object
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.metadata import ObjectMetadata
from trackbed.fabric.model.load import load_lock
from trackbed.fabric.plan.lock import render_lock

_KEY = "trackbed.lock.yaml"


class _Data(msgspec.Struct):
    text: str = msgspec.field(name=_KEY)


class _Stored(msgspec.Struct):
    metadata: ObjectMetadata
    data: _Data


class KeptLock:
    """The lock of one Fabric; what was read or written last is in `nodes`, of which version in `version`."""

    def __init__(self, client: Client, namespace: str, fabric: str) -> None:
        self.nodes: Mapping[str, int] = {}
        self._client, self._fabric = client, fabric
        self._metadata = {"name": f"trackbed-lock-{fabric}", "namespace": namespace}
        self._all = f"/api/v1/namespaces/{namespace}/configmaps"
        self.version = ""

    async def read(self) -> None:
        """Read it; where there is none yet it is empty. Raises KubeError, and SpecError for one that cannot be read."""
        try:
            stored = await self._client.get(f"{self._all}/{self._metadata['name']}", _Stored)
        except ApiRefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            self.nodes, self.version = {}, ""
            return
        self.nodes = load_lock(stored.data.text.encode(), f"ConfigMap {self._metadata['name']}").nodes
        self.version = stored.metadata.resource_version

    async def write(self, nodes: Mapping[str, int]) -> None:
        """Write it over what was read last, and leave alone what another version of Trackbed keeps beside it.

        ApiRefusedError with status 409 where somebody else wrote meanwhile.
        """
        data = {_KEY: render_lock(self._fabric, nodes)}
        if self.version:
            change = {"metadata": {"resourceVersion": self.version}, "data": data}
            stored = await self._client.merge(f"{self._all}/{self._metadata['name']}", change)
        else:
            one: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self._metadata, "data": data}
            stored = await self._client.create(self._all, one)
        self.nodes, self.version = dict(nodes), stored["metadata"]["resourceVersion"]
