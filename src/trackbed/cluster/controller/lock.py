r"""The lock of a Fabric (node -> slot) in the cluster: a ConfigMap with the document trackbed.lock.yaml.

A slot is written to the lock before any RailNode has it, and a write over a newer version is refused (409). So two
controllers never assign a slot to two nodes. Saved beside the Fabric's file, the lock also serves the command line:

    kubectl get configmap trackbed-lock-FABRIC -n NAMESPACE -o jsonpath='{.data.trackbed\.lock\.yaml}'
"""

from collections.abc import Mapping

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.metadata import ObjectMetadata
from trackbed.cluster.api.paths import join_path
from trackbed.cluster.api.response import Object
from trackbed.fabric.model.load import load_lock
from trackbed.fabric.plan.lock import render_lock

_KEY = "trackbed.lock.yaml"


class _Data(msgspec.Struct):
    """The data of the ConfigMap: the lock as YAML."""

    text: str = msgspec.field(name=_KEY)


class _ConfigMap(msgspec.Struct):
    """The ConfigMap that stores a lock."""

    metadata: ObjectMetadata
    data: _Data


class LockConfigMap:
    """The lock of one Fabric; `nodes` (node -> slot) and `version` are those of the last read or write."""

    def __init__(self, client: Client, namespace: str, fabric: str) -> None:
        self.nodes: Mapping[str, int] = {}
        self.version = ""
        self._client, self._fabric = client, fabric
        self._metadata = {"name": f"trackbed-lock-{fabric}", "namespace": namespace}
        self._path = join_path("/api/v1/namespaces", namespace, "configmaps")

    async def read(self) -> None:
        """Read the lock, which is empty without a ConfigMap. Raises KubeError, and SpecError if it is malformed."""
        config_map = await self._client.find(join_path(self._path, self._metadata["name"]), _ConfigMap)
        if config_map is None:
            self.nodes, self.version = {}, ""
            return
        self.nodes = load_lock(config_map.data.text.encode(), f"ConfigMap {self._metadata['name']}").nodes
        self.version = config_map.metadata.resource_version

    async def write(self, nodes: Mapping[str, int]) -> None:
        """Write `nodes` (node -> slot) to the lock; other keys of the ConfigMap are kept.

        Raises KubeError; ApiRefusedError with status 409 if the ConfigMap has changed since it was read.
        """
        data = {_KEY: render_lock(self._fabric, nodes)}
        if self.version:
            change = {"metadata": {"resourceVersion": self.version}, "data": data}
            response = await self._client.merge(join_path(self._path, self._metadata["name"]), change)
        else:
            body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self._metadata, "data": data}
            response = await self._client.create(self._path, body)
        self.nodes, self.version = dict(nodes), response["metadata"]["resourceVersion"]
