"""What reviews go by: the Fabrics with their plans, namespaces, slots in use, and the cluster's own address ranges.

A value that is replaced whole: whoever watches the cluster makes a new one of the old (msgspec.structs.replace) and
puts it in its place, and a review under way goes on with the one it began with.
"""

from __future__ import annotations

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

CHOICES = 256
"""Choices of rails of one Fabric whose Wanted is kept: all that eight rails allow."""


@dataclass(frozen=True, eq=False)
class Planned:
    """A Fabric that pods may ask for: its stack, its plan, and what its pods carry, worked out once a choice of rails.

    The stack must not refuse the plan.
    """

    stack: Stack
    plan: Plan
    _made: dict[tuple[int, ...], PodRequirements] = field(default_factory=dict)

    def wanted(self, rails: tuple[int, ...]) -> PodRequirements:
        """What a pod carries that gets these rails, in rail order; the first time costs 15 ms with 12,500 nodes."""
        found = self._made.get(rails)
        if found is None:
            if len(self._made) >= CHOICES:
                self._made.clear()
            found = self._made[rails] = build_requirements(self.stack, self.plan, rails)
        return found

    @cached_property
    def whole(self) -> Access:
        """What a pod with all rails carries."""
        return self.stack.access(self.plan)

    @cached_property
    def on_nodes(self) -> frozenset[frozenset[int]]:
        """The sets of rails that nodes have ports on, each once."""
        return frozenset(frozenset(port.rail for port in node.ports) for node in self.plan.nodes)

    @cached_property
    def tells_rails_apart(self) -> bool:
        """Whether a pod can have a certain rail, or only so many: some clouds count all of them as one resource."""
        count = len(self.plan.common.rails)
        return count == 1 or self.wanted((0,)).access != self.wanted((count - 1,)).access


class Namespace(msgspec.Struct, frozen=True):
    """A namespace's labels and annotations."""

    labels: Mapping[str, str] = MappingProxyType({})
    annotations: Mapping[str, str] = MappingProxyType({})


def namespace_of(one: Mapping[str, Any]) -> Namespace:
    """A Namespace object (v1) as what is known of it."""
    metadata = one.get("metadata") or {}
    return Namespace(metadata.get("labels") or {}, metadata.get("annotations") or {})


class Ranges(msgspec.Struct, frozen=True):
    """Ranges that the cluster itself uses."""

    services: tuple[Range, ...] = ()
    pods: tuple[Range, ...] = ()
    nodes: tuple[Range, ...] = ()


class Known(msgspec.Struct, frozen=True):
    """All that reviews go by."""

    fabrics: Mapping[str, Planned] = MappingProxyType({})
    broken: Mapping[str, str] = MappingProxyType({})
    """Fabrics of which nothing can be planned, and why: they were let in while no webhook looked."""
    namespaces: Mapping[str, Namespace] = MappingProxyType({})
    slots: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    """Fabric -> node -> slot, of the RailNodes there are."""
    ranges: Ranges = Ranges()
