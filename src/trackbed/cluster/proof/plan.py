"""The plan of a Fabric of the cluster, with the slots that its nodes have there."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.paths import join_path
from trackbed.cluster.api.response import Object
from trackbed.cluster.resources import fabric, railnode
from trackbed.cluster.resources.slots import SlottedRailNode, group_slots
from trackbed.fabric.model.load import build_fabric_from_resource
from trackbed.fabric.plan.compute import compute_plan

if TYPE_CHECKING:
    from trackbed.cluster.api.client import Client
    from trackbed.fabric.model.fabric import Fabric
    from trackbed.fabric.plan.plan import Plan


class UnplannedError(Exception):
    """No plan can be read from the cluster; the message says what to do instead."""


async def read_plan_of_cluster(client: Client, name: str) -> tuple[Fabric, Plan]:
    """Return a Fabric and its plan.

    Raises:
        UnplannedError: there is no such Fabric, or it is rolled back.
        KubeError: the cluster does not answer.
        SpecError: the Fabric cannot be planned.
    """
    try:
        body = await client.get(join_path(fabric.PATH, name), Object)
    except ApiRefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        raise UnplannedError(f"the cluster has no Fabric {name}; `kubectl get fabrics` lists those it has") from error
    if _is_rolled_back(body):
        # An earlier spec is rolled out, which the controller keeps in its own namespace.
        raise UnplannedError(f"Fabric {name} is rolled back to an earlier spec; name the file of that one with -f")
    slots = group_slots([item async for item in client.iter_objects(railnode.PATH, SlottedRailNode)])
    model = build_fabric_from_resource(body)
    return model, compute_plan(model, slots.get(name, {}))


def _is_rolled_back(body: Object) -> bool:
    """Return whether the current generation of a Fabric is rolled back to an earlier one."""
    metadata = body["metadata"]
    return bool((metadata.get("annotations") or {}).get(fabric.ROLLBACK) == str(metadata["generation"]))
