"""A stack: a way of giving NICs to pods, as a record of pure functions of the Plan.

charts      Helm releases to install first, in order
stages      objects to apply, in order; after each stage its conditions are waited for
access      the additions to a pod that give it rails
files       text files, for stacks without Kubernetes
warnings    what must be done first, or nothing comes up
refusals    reasons why the plan cannot be implemented; if there are any, no other function is called
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.objects import Manifest
from trackbed.cluster.stacks.traits import Traits
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan

ROLLED_OUT = "rolled-out"
"""Condition of a DaemonSet whose pods are all updated and ready, for which there is no status condition."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A condition as in `kubectl wait --for=CONDITION RESOURCE`, in a namespace unless cluster-scoped.

    CONDITION is `condition=TYPE`, `jsonpath={PATH}=VALUE`, `jsonpath={PATH}` (any value), or ROLLED_OUT, for which
    `kubectl rollout status` is used.
    """

    resource: str
    condition: str
    namespace: str | None = None
    timeout_seconds: int = 600


@dataclass(frozen=True, slots=True)
class ResourceWait:
    """A wait until nodes offer resources. One request covers all nodes, as 12,500 single requests would take hours."""

    resources_by_node: tuple[tuple[str, tuple[str, ...]], ...]
    """Node names, each with the names of the resources that the node must offer."""
    timeout_seconds: int = 600

    @property
    def required_counts(self) -> dict[tuple[str, ...], int]:
        """Names of resources -> number of nodes that must offer all of them; one entry if all nodes are alike."""
        counts = Counter(names for _, names in self.resources_by_node)
        return {names: sum(counts[other] for other in counts if set(names) <= set(other)) for names in counts}

    @property
    def resource(self) -> str:
        """The nodes, for messages; corresponds to `Wait.resource`."""
        return f"{len(self.resources_by_node)} nodes"

    @property
    def condition(self) -> str:
        """The resources, for messages; corresponds to `Wait.condition`."""
        return f"allocatable {', '.join(dict.fromkeys(name for names in self.required_counts for name in names))}"


AnyWait = Wait | ResourceWait


@dataclass(frozen=True, slots=True)
class ForeignObjects:
    """Objects of some kinds in a namespace that were not created by a stage, whose own objects have the name `name`."""

    group_kinds: tuple[str, ...]
    """Kinds with their groups, such as OperatorGroup.operators.coreos.com; `kubectl get` reads them, too."""
    namespace: str
    name: str
    """Name of the stage's objects of these kinds, which do not count."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Objects that may be applied together; `objects` may be an iterator, so that 100,000 need little memory."""

    name: str
    objects: Iterable[Manifest]
    waits: tuple[AnyWait, ...] = ()
    before_labels: bool = False
    """Whether it precedes the nodes' labels, by which the daemons of a chart that is already installed choose nodes."""
    force: bool = False
    """Whether to take over fields of other managers, for objects that the platform creates with values of its own."""
    yields_to: ForeignObjects | None = None
    """Objects in whose presence the stage is left out, but not its waits, as they are another installation of it."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A Helm release to install: a component of the release catalogue, its namespace and its values."""

    component: str
    namespace: str
    values: dict[str, Any] = field(default_factory=dict)
    waits: tuple[AnyWait, ...] = ()


def _return_nothing(_: Plan) -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True)
class Stack:
    """A way of giving NICs to pods."""

    name: str
    title: str
    """One line: what attaches which interfaces to pods."""
    traits: Traits
    """The facts by which a person chooses a stack."""
    needs: tuple[str, ...]
    """Prerequisites: operators, plugins, versions, hardware."""
    cannot: tuple[str, ...]
    """Limitations."""
    stages: Callable[[Plan], Iterable[Stage]] = _return_nothing
    access: Callable[[Plan], Access] = lambda _: Access()
    charts: Callable[[Plan], tuple[Chart, ...]] = _return_nothing
    files: Callable[[Plan], dict[str, str]] = lambda _: {}
    """File name -> text."""
    refusals: Callable[[Plan], Iterable[Problem]] = _return_nothing
    warnings: Callable[[Plan], Iterable[Problem]] = _return_nothing
    """What whoever rolls the stack out has to know."""
    ports_on_host: bool = True
    """Whether ports always stay on the host under their planned names, so that node labels can depend on them."""
    platform_operators: bool = False
    """Whether the platform installs operators; then no charts and no files for kubelet and containerd are rendered."""
    deploys_driver: bool = False
    """Whether the stack deploys NVIDIA's driver container for a plan with `driver: container`."""
    needs_labels: bool = True
    """Whether nodes need the fabric's label; false if the resources of rails are enough to select nodes."""

    @property
    def has_objects(self) -> bool:
        """Whether the stack has objects to apply to a cluster."""
        return self.stages is not _return_nothing

    @property
    def labels_nodes(self) -> bool:
        """Whether nodes get the fabric's label; never on a stack without objects."""
        return self.has_objects and self.needs_labels


def iter_objects(stack: Stack, plan: Plan) -> Iterable[Manifest]:
    """Return an iterator over the objects of all stages, in order."""
    return (manifest for stage in stack.stages(plan) for manifest in stage.objects)
