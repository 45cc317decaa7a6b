"""A stack: one way of giving NICs to pods, as a value of plain functions of the Plan.

charts      Helm releases to install first, in order
stages      objects to apply, in order, with what must hold before the next stage
access      what a pod must carry to get its rails
files       text files, for ways without Kubernetes
refusals    why this plan cannot be had on this stack; nothing else is called when there are any
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.objects import Manifest
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan

ROLLED_OUT = "rolled-out"
"""What a DaemonSet is waited for: it has no condition, and `kubectl wait` compares no two fields."""


@dataclass(frozen=True, slots=True)
class Wait:
    """One condition in the words of `kubectl wait`: `--for=FOR RESOURCE`, in a namespace unless cluster-scoped.

    FOR is `condition=TYPE`, `jsonpath={PATH}=VALUE`, `jsonpath={PATH}` (anything is there), or ROLLED_OUT, which is
    what `kubectl rollout status` waits for.
    """

    resource: str
    until: str
    namespace: str | None = None
    timeout_seconds: int = 600


@dataclass(frozen=True, slots=True)
class Offered:
    """Resources that nodes must have to give: one question for all nodes, as one for each of 12,500 takes hours."""

    nodes: tuple[tuple[str, tuple[str, ...]], ...]
    """Name -> resources."""
    timeout_seconds: int = 600

    @property
    def asked(self) -> dict[tuple[str, ...], int]:
        """Resources that some nodes must have together -> how many must have them all; one entry if nodes are alike."""
        alike = Counter(names for _, names in self.nodes)
        return {names: sum(alike[more] for more in alike if set(names) <= set(more)) for names in alike}

    @property
    def resource(self) -> str:
        """What is waited for, as in a Wait."""
        return f"{len(self.nodes)} nodes"

    @property
    def until(self) -> str:
        """What it must come to, as in a Wait."""
        return f"allocatable {', '.join(dict.fromkeys(name for names in self.asked for name in names))}"


Until = Wait | Offered
"""What must hold before the next step."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Objects that may be applied together; `objects` may be read once only, so that 100,000 need no memory."""

    name: str
    objects: Iterable[Manifest]
    until: tuple[Until, ...] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """A Helm release: a component of the release catalogue, where it goes, and its values."""

    component: str
    namespace: str
    values: dict[str, Any] = field(default_factory=dict)
    until: tuple[Until, ...] = ()


def _nothing(_: Plan) -> tuple[()]:
    return ()


def _no_access(_: Plan) -> Access:
    return Access()


def _no_files(_: Plan) -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Stack:
    """One way of giving NICs to pods."""

    name: str
    title: str
    """One line: what attaches what to a pod."""
    needs: tuple[str, ...]
    """What must be there: operators, plugins, versions, hardware."""
    cannot: tuple[str, ...]
    """What this stack is unable to do."""
    stages: Callable[[Plan], Iterable[Stage]] = _nothing
    access: Callable[[Plan], Access] = _no_access
    charts: Callable[[Plan], tuple[Chart, ...]] = _nothing
    files: Callable[[Plan], dict[str, str]] = _no_files
    """Name -> text."""
    refusals: Callable[[Plan], Iterable[Problem]] = _nothing
    ports_on_host: bool = True
    """Whether ports always stand on the host under their planned names, so that their presence can select nodes."""
    platform_operators: bool = False
    """Whether the platform brings the operators: no Helm chart, and no file for kubelet or runtime, is ours then."""

    needs_labels: bool = True
    """Whether nodes must carry the fabric's label; not where asking for rails finds the nodes that have them."""

    @property
    def has_objects(self) -> bool:
        """Whether it puts anything into the cluster."""
        return self.stages is not _nothing

    @property
    def labels_nodes(self) -> bool:
        """Whether nodes carry the fabric's label: a way that puts nothing into the cluster labels nothing either."""
        return self.has_objects and self.needs_labels


def objects(stack: Stack, plan: Plan) -> Iterable[Manifest]:
    """All objects of a stack, in order."""
    return (one for stage in stack.stages(plan) for one in stage.objects)
