r"""The lock of a Fabric in the cluster: a ConfigMap that holds the document trackbed.lock.yaml.

A slot is written there before any RailNode has it, and only over the version that was read (409 otherwise), so two
controllers never assign one slot to two nodes. The command line reads the lock if it is saved beside the Fabric:

    kubectl get configmap trackbed-lock-FABRIC -n NAMESPACE -o jsonpath='{.data.trackbed\.lock\.yaml}'
"""

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


class _ConfigMap(msgspec.Struct):
    metadata: ObjectMetadata
    data: _Data


class LockConfigMap:
    """The lock of one Fabric; `nodes` and `version` are those of the last read or write."""

    def __init__(self, client: Client, namespace: str, fabric: str) -> None:
        self.nodes: Mapping[str, int] = {}
        self.version = ""
        self._client, self._fabric = client, fabric
        self._metadata = {"name": f"trackbed-lock-{fabric}", "namespace": namespace}
        self._path = f"/api/v1/namespaces/{namespace}/configmaps"

    async def read(self) -> None:
        """Read the lock; a missing ConfigMap is an empty lock. Raises KubeError, and SpecError if it is malformed."""
        try:
            config_map = await self._client.get(f"{self._path}/{self._metadata['name']}", _ConfigMap)
        except ApiRefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            self.nodes, self.version = {}, ""
            return
        self.nodes = load_lock(config_map.data.text.encode(), f"ConfigMap {self._metadata['name']}").nodes
        self.version = config_map.metadata.resource_version

    async def write(self, nodes: Mapping[str, int]) -> None:
        """Write the lock over the version that was read; other keys of the ConfigMap are kept.

        Raises ApiRefusedError, with status 409 where the ConfigMap has changed since.
        """
        data = {_KEY: render_lock(self._fabric, nodes)}
        if self.version:
            change = {"metadata": {"resourceVersion": self.version}, "data": data}
            response = await self._client.merge(f"{self._path}/{self._metadata['name']}", change)
        else:
            body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self._metadata, "data": data}
            response = await self._client.create(self._path, body)
        self.nodes, self.version = dict(nodes), response["metadata"]["resourceVersion"]
