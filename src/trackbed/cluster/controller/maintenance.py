"""Node maintenance by other operators, so that only one of them works on a node.

    NodeMaintenance of            a node is under maintenance
    nodemaintenance.medik8s.io    as long as the object exists
    maintenance.nvidia.com        unless the object is queued (Pending)

Nothing begins on such a node. A node that has begun completes its step, and keeps taint and cordon until the
maintenance is over. Each operator may be installed at any time, or not at all.
"""

from collections.abc import Callable, Mapping

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.metadata import ObjectMetadata
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.resources.conditions import Condition, find

MEDIK8S = "/apis/nodemaintenance.medik8s.io/v1beta1/nodemaintenances"
NVIDIA = "/apis/maintenance.nvidia.com/v1alpha1/nodemaintenances"
_QUEUED = frozenset({"", "Pending"})
"""Reasons of condition Ready of an NVIDIA object whose maintenance has not started."""


class _MaintenanceSpec(msgspec.Struct, frozen=True):
    node: str = msgspec.field(default="", name="nodeName")
    reason: str = ""
    requestor: str = msgspec.field(default="", name="requestorID")


class _MaintenanceStatus(msgspec.Struct, frozen=True):
    conditions: tuple[Condition, ...] = ()


class NodeMaintenance(msgspec.Struct, frozen=True):
    """An object of either operator; `reason` is free text of medik8s, `requestorID` the requesting operator's name."""

    metadata: ObjectMetadata
    spec: _MaintenanceSpec = _MaintenanceSpec()
    status: _MaintenanceStatus = _MaintenanceStatus()

    @property
    def description(self) -> str:
        """The object's name and purpose."""
        purpose = self.spec.reason or self.spec.requestor
        return f"NodeMaintenance {self.metadata.name} has it in maintenance{f' ({purpose})' if purpose else ''}"


class Maintenance:
    """All maintenance in the cluster; `changed` is called after each change."""

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        self._medik8s = Reflector(client, MEDIK8S, NodeMaintenance, changed, optional=True)
        self._nvidia = Reflector(client, NVIDIA, NodeMaintenance, changed, optional=True)
        self.reflectors = (self._medik8s, self._nvidia)

    def list_nodes(self) -> Mapping[str, str]:
        """Return the nodes under maintenance, each with the description of its maintenance."""
        queued = {name for name, maintenance in self._nvidia.objects.items() if _is_queued(maintenance)}
        objects = {**self._nvidia.objects, **self._medik8s.objects}
        started = [maintenance for name, maintenance in objects.items() if name not in queued]
        return {maintenance.spec.node: maintenance.description for maintenance in started if maintenance.spec.node}


def _is_queued(maintenance: NodeMaintenance) -> bool:
    return find(maintenance.status.conditions, "Ready").reason in _QUEUED
