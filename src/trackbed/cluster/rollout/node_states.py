"""Nodes on which the SR-IOV operator has yet to remove the VFs of deleted policies.

Follows SriovNetworkNodeState (sriovnetwork.openshift.io/v1): `spec.interfaces` has the ports to configure, and by
`vfGroups` their policies, `status.interfaces` the ports as they are. Between a policy's deletion and the operator's
reaction `status.syncStatus` is still Succeeded, so the ports themselves are compared, too.
"""

from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from typing import NamedTuple

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import UnknownKindError
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout.options import format_object_name
from trackbed.cluster.rollout.progress import describe_shortfall, meets_condition
from trackbed.cluster.stacks.sriov import API

_SYNCED = "jsonpath={.status.syncStatus}=Succeeded"


class PolicyPorts(NamedTuple):
    """The ports that deleted policies configured."""

    policies: Collection[str] = ()
    """Names of the policies."""
    ports: Mapping[str, frozenset[str]] = {}
    """Node -> PCI addresses of ports whose VFs the operator created."""


async def read_policy_ports(client: DynamicClient, policies: Collection[str]) -> PolicyPorts:
    """Return the ports that policies configure, to be read before their deletion. Raises KubeError."""
    if not policies:
        return PolicyPorts()
    ports = {state["metadata"]["name"]: _list_ports(state, policies) async for state in _iter_node_states(client)}
    return PolicyPorts(policies, {node: addresses for node, addresses in ports.items() if addresses})


async def list_unsynced_nodes(client: DynamicClient, removed: PolicyPorts) -> list[str]:
    """Return a line for each node that is not synced, or still has VFs of removed policies. Raises KubeError."""
    return [line async for state in _iter_node_states(client) if (line := _describe_node_state(state, removed))]


async def _iter_node_states(client: DynamicClient) -> AsyncIterator[Object]:
    """Yield the state of each node; nothing if the server lacks the kind. Raises KubeError."""
    try:
        async for state in client.iter_objects(API, "SriovNetworkNodeState"):
            yield state
    except UnknownKindError:
        return


def _describe_node_state(state: Object, removed: PolicyPorts) -> str:
    """Return what a node lacks, as text; empty if it is synced and has no VFs of removed policies."""
    name = format_object_name(state)
    if not meets_condition(state, _SYNCED):
        return f"{name}: {describe_shortfall(state, _SYNCED)}"
    if _list_ports(state, removed.policies):
        return f"{name}: the operator has not taken the deleted policies out of its spec yet"
    configured = {port.get("pciAddress") for port in _iter_ports(state, "spec")}
    for port in _iter_ports(state, "status"):
        address = port.get("pciAddress", "")
        is_removed = address in removed.ports.get(state["metadata"]["name"], ()) and address not in configured
        if is_removed and port.get("numVfs"):
            return f"{name}: {address} still has {port['numVfs']} VFs"
    return ""


def _list_ports(state: Object, policies: Collection[str]) -> frozenset[str]:
    """Return the PCI addresses of the ports that policies configure, without those whose VFs others create."""
    return frozenset(
        port.get("pciAddress", "")
        for port in _iter_ports(state, "spec")
        if not port.get("externallyManaged")
        and any(group.get("policyName") in policies for group in port.get("vfGroups") or ())
    )


def _iter_ports(state: Object, part: str) -> Iterator[Object]:
    yield from (state.get(part) or {}).get("interfaces") or ()
