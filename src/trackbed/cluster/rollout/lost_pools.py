"""Pools that vanish when a NicClusterPolicy is deleted, or its section nvIpam.

The Network Operator then deletes the objects of the states that are gone (handleStateObjectsDeletion in
pkg/state/state_skel.go), among them NV-IPAM's CRDs (manifests/state-nv-ipam-cni), although they may have been there
before it; the API server deletes all pools with them.
"""

from collections.abc import Iterable

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import UnknownKindError
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout.applyset import PART_OF, ApplySet
from trackbed.cluster.rollout.options import format_object_name
from trackbed.cluster.stacks.nv_ipam import API

_POOL_KINDS = ("IPPool", "CIDRPool")
_MAX_NAMES = 6
SECTION = "nvIpam of its NicClusterPolicy"
"""What is gone if `drops_nv_ipam`, for messages."""


def drops_nv_ipam(live: Object | None, updated: Object) -> bool:
    """Return whether an update of an object takes the section nvIpam out of a NicClusterPolicy."""
    if live is None or live.get("kind") != "NicClusterPolicy":
        return False
    return bool(live.get("spec", {}).get("nvIpam")) and not updated.get("spec", {}).get("nvIpam")


async def describe_lost_pools(client: DynamicClient, applyset: ApplySet, removed: Iterable[Object]) -> str:
    """Return which pools of others the removal of these objects deletes, as text; empty if none. Raises KubeError."""
    if all(body["kind"] != "NicClusterPolicy" for body in removed):
        return ""
    return await describe_pools_of_others(client, applyset, "its NicClusterPolicy")


async def describe_pools_of_others(client: DynamicClient, applyset: ApplySet, cause: str) -> str:
    """Return which pools of others NV-IPAM's CRDs take along, as text; empty if there are none. Raises KubeError."""
    pools = [name for kind in _POOL_KINDS for name in await _list_other_pools(client, applyset, kind)]
    if not pools:
        return ""
    suffix = f" and {len(pools) - _MAX_NAMES} more" if len(pools) > _MAX_NAMES else ""
    return (
        f"the Network Operator deletes NV-IPAM's CRDs with {cause}, and with them pools that do not belong "
        f"to this stack: {', '.join(pools[:_MAX_NAMES])}{suffix}"
    )


async def _list_other_pools(client: DynamicClient, applyset: ApplySet, kind: str) -> list[str]:
    try:
        pools = [body async for body in client.iter_objects(API, kind)]
    except UnknownKindError:
        return []
    return [
        format_object_name(body) for body in pools if body["metadata"].get("labels", {}).get(PART_OF) != applyset.id
    ]
