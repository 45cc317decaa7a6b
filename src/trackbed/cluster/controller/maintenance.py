"""Maintenance that others do on nodes, as two operators tell it: one hand at a time.

    NodeMaintenance of            a node is in maintenance
    nodemaintenance.medik8s.io    as long as the object is there
    maintenance.nvidia.com        once its turn has come: until then (Pending) nobody has touched the node

Nothing begins on such a node; one that has begun ends the step that it is in, and keeps taint and cordon until the
maintenance is over. Either operator may be installed at any time, or never.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.metadata import ObjectMetadata
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.resources.conditions import Condition, find

MEDIK8S = "/apis/nodemaintenance.medik8s.io/v1beta1/nodemaintenances"
NVIDIA = "/apis/maintenance.nvidia.com/v1alpha1/nodemaintenances"
_QUEUED = frozenset({"", "Pending"})
"""Reasons of condition Ready of an object of NVIDIA's that only waits."""


class _MaintenanceSpec(msgspec.Struct, frozen=True):
    node: str = msgspec.field(default="", name="nodeName")
    reason: str = ""
    requestor: str = msgspec.field(default="", name="requestorID")


class _MaintenanceStatus(msgspec.Struct, frozen=True):
    conditions: tuple[Condition, ...] = ()


class NodeMaintenance(msgspec.Struct, frozen=True):
    """An object of either operator; `reason` is for people with the one, `requestorID` is who asked with the other."""

    metadata: ObjectMetadata
    spec: _MaintenanceSpec = _MaintenanceSpec()
    status: _MaintenanceStatus = _MaintenanceStatus()

    @property
    def why(self) -> str:
        """The object and what it is for, in words."""
        purpose = self.spec.reason or self.spec.requestor
        return f"NodeMaintenance {self.metadata.name} has it in maintenance{f' ({purpose})' if purpose else ''}"


class Maintenance:
    """All maintenance in the cluster; `changed` is called after each change."""

    def __init__(self, client: Client, changed: Callable[[], None]) -> None:
        self._medik8s = Reflector(client, MEDIK8S, NodeMaintenance, changed, optional=True)
        self._nvidia = Reflector(client, NVIDIA, NodeMaintenance, changed, optional=True)
        self.kinds = (self._medik8s, self._nvidia)

    def nodes(self) -> Mapping[str, str]:
        """Nodes in maintenance, and why."""
        queued = {name for name, one in self._nvidia.objects.items() if _is_queued(one)}
        all_ = {**self._nvidia.objects, **self._medik8s.objects}
        return {one.spec.node: one.why for name, one in all_.items() if one.spec.node and name not in queued}


def _is_queued(one: NodeMaintenance) -> bool:
    return find(one.status.conditions, "Ready").reason in _QUEUED
