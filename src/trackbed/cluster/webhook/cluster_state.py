"""The input of all reviews: Fabrics with their plans, namespaces, slots in use, and the cluster's address ranges.

A cluster state is immutable: each change of the cluster replaces it, and a review uses one state from start to end.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import msgspec

from trackbed.cluster.jobs.requirements import PodRequirements, build_requirements
from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.stack import Stack
from trackbed.fabric.model.ranges import Range
from trackbed.fabric.plan.plan import Plan

MAX_CACHED_RAIL_SETS = 256
"""Sets of rails of one Fabric whose requirements are cached: the number of subsets of eight rails."""


@dataclass(frozen=True, eq=False)
class PlannedFabric:
    """A Fabric that pods may request: its stack, its plan, and a cache of pod requirements by set of rails.

    The stack must support the plan.
    """

    stack: Stack
    plan: Plan
    _cache: dict[tuple[int, ...], PodRequirements] = field(default_factory=dict)

    def get_requirements(self, rails: tuple[int, ...]) -> PodRequirements:
        """Return the requirements of a pod with these rails; the first call for 12,500 nodes takes 15 ms."""
        requirements = self._cache.get(rails)
        if requirements is None:
            if len(self._cache) >= MAX_CACHED_RAIL_SETS:
                self._cache.clear()
            requirements = self._cache[rails] = build_requirements(self.stack, self.plan, rails)
        return requirements

    @cached_property
    def full_access(self) -> Access:
        """Networks, resources and claims of a pod with all rails."""
        return self.stack.access(self.plan)

    @cached_property
    def rail_sets(self) -> frozenset[frozenset[int]]:
        """The distinct sets of rails of nodes."""
        return frozenset(frozenset(port.rail for port in node.ports) for node in self.plan.nodes)

    @cached_property
    def distinguishes_rails(self) -> bool:
        """Whether a pod can request particular rails; some clouds count all rails as one resource."""
        count = len(self.plan.common.rails)
        return count == 1 or self.get_requirements((0,)).access != self.get_requirements((count - 1,)).access


class Namespace(msgspec.Struct, frozen=True):
    """A namespace's labels and annotations."""

    labels: Mapping[str, str] = MappingProxyType({})
    annotations: Mapping[str, str] = MappingProxyType({})


def parse_namespace(body: Mapping[str, Any]) -> Namespace:
    """Return the labels and annotations of a Namespace object (v1)."""
    metadata = body.get("metadata") or {}
    return Namespace(metadata.get("labels") or {}, metadata.get("annotations") or {})


class ClusterRanges(msgspec.Struct, frozen=True):
    """Address ranges of the cluster: services, pods and nodes."""

    services: tuple[Range, ...] = ()
    pods: tuple[Range, ...] = ()
    nodes: tuple[Range, ...] = ()


class ClusterState(msgspec.Struct, frozen=True):
    """The state of the cluster that reviews depend on."""

    fabrics: Mapping[str, PlannedFabric] = MappingProxyType({})
    broken: Mapping[str, str] = MappingProxyType({})
    """Fabric that cannot be planned -> reason. Such a Fabric was admitted while no webhook ran."""
    namespaces: Mapping[str, Namespace] = MappingProxyType({})
    slots: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    """Fabric -> node -> slot, of all RailNodes."""
    ranges: ClusterRanges = ClusterRanges()

    @property
    def fabric_names(self) -> frozenset[str]:
        """The names of all Fabrics, planned or broken."""
        return frozenset({*self.fabrics, *self.broken})
