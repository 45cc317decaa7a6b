"""ApplySets of a cluster and their members."""

from __future__ import annotations

from collections.abc import AsyncIterator

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import UnknownKindError
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout.applyset import ID, KINDS, NAMESPACES, PART_OF, TOOLING, TOOLING_NAME, ApplySet


async def list_applysets(client: DynamicClient) -> AsyncIterator[ApplySet]:
    """Yield every installation of Trackbed in the cluster, by its parent."""
    async for parent in client.list("v1", "ConfigMap", selector=ID):
        if parent["metadata"].get("annotations", {}).get(TOOLING) == TOOLING_NAME:
            yield ApplySet(parent["metadata"]["name"], parent["metadata"]["namespace"])


async def read_scope(client: DynamicClient, applyset: ApplySet) -> tuple[frozenset[str], frozenset[str]]:
    """Return the kinds and namespaces of members by the set's parent; its own namespace included."""
    parent = await client.find("v1", "ConfigMap", applyset.name, applyset.namespace)
    if parent is None:
        return frozenset(), frozenset({applyset.namespace})
    annotations = parent["metadata"].get("annotations", {})
    kinds, others = (frozenset(filter(None, annotations.get(key, "").split(","))) for key in (KINDS, NAMESPACES))
    return kinds, others | {applyset.namespace}


async def list_members(client: DynamicClient, applyset: ApplySet) -> AsyncIterator[Object]:
    """Yield all objects of the set, of every kind that its parent names and the server still serves."""
    kinds, namespaces = await read_scope(client, applyset)
    for kind in sorted(kinds):
        try:
            resource = await client.find_kind(kind)
        except UnknownKindError:
            continue  # its CRD is gone, and all its objects with it
        selector = f"{PART_OF}={applyset.id}"
        for namespace in sorted(namespaces) if resource.namespaced else [None]:
            async for member in client.list(resource.group_version, resource.kind, namespace, selector=selector):
                yield member


async def find_live(client: DynamicClient, body: Object) -> Object | None:
    """Return an object as it is in the cluster; None where it does not exist. Raises UnknownKindError."""
    metadata = body["metadata"]
    return await client.find(body["apiVersion"], body["kind"], metadata["name"], metadata.get("namespace"))
