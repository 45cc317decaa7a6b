"""Node maintenance by other operators, so that only one operator works on a node at a time.

    NodeMaintenance of            a node is under maintenance
    nodemaintenance.medik8s.io    as long as the object exists
    maintenance.nvidia.com        unless the object is queued (Pending)

No change begins on such a node. A node that has begun completes its current step, and keeps taint and cordon until the
maintenance is over. Either operator may be missing, or be installed later.
"""

from collections.abc import Callable, Mapping

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.metadata import ObjectMetadata
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.resources.conditions import Condition, find_condition

MEDIK8S = "/apis/nodemaintenance.medik8s.io/v1beta1/nodemaintenances"
NVIDIA = "/apis/maintenance.nvidia.com/v1alpha1/nodemaintenances"
_QUEUED_REASONS = frozenset({"", "Pending"})
"""Reasons of condition Ready of an NVIDIA NodeMaintenance that has not started."""


class _MaintenanceSpec(msgspec.Struct, frozen=True):
    node: str = msgspec.field(default="", name="nodeName")
    reason: str = ""
    requestor: str = msgspec.field(default="", name="requestorID")


class _MaintenanceStatus(msgspec.Struct, frozen=True):
    conditions: tuple[Condition, ...] = ()


class NodeMaintenance(msgspec.Struct, frozen=True):
    """A NodeMaintenance: medik8s sets free text in `reason`, NVIDIA the name of an operator in `requestorID`."""

    metadata: ObjectMetadata
    spec: _MaintenanceSpec = _MaintenanceSpec()
    status: _MaintenanceStatus = _MaintenanceStatus()

    @property
    def description(self) -> str:
        """Name and purpose of the NodeMaintenance, as text."""
        purpose = self.spec.reason or self.spec.requestor
        return f"NodeMaintenance {self.metadata.name} has it in maintenance{f' ({purpose})' if purpose else ''}"


class Maintenance:
    """The NodeMaintenance objects of both operators; `on_change` is called after each change."""

    def __init__(self, client: Client, on_change: Callable[[], None]) -> None:
        self._medik8s = Reflector(client, MEDIK8S, NodeMaintenance, on_change, optional=True)
        self._nvidia = Reflector(client, NVIDIA, NodeMaintenance, on_change, optional=True)
        self.reflectors = (self._medik8s, self._nvidia)

    def describe_nodes(self) -> Mapping[str, str]:
        """Return a description of the maintenance for each node under maintenance, by node."""
        queued = {name for name, maintenance in self._nvidia.objects.items() if _is_queued(maintenance)}
        objects = {**self._nvidia.objects, **self._medik8s.objects}
        started = [maintenance for name, maintenance in objects.items() if name not in queued]
        return {maintenance.spec.node: maintenance.description for maintenance in started if maintenance.spec.node}


def _is_queued(maintenance: NodeMaintenance) -> bool:
    """Return whether an NVIDIA NodeMaintenance has not started."""
    return find_condition(maintenance.status.conditions, "Ready").reason in _QUEUED_REASONS
