"""What of ours is on a cluster and how it stands, by one look that changes nothing.

sets      every installation, found by the parents of its ApplySet; its members, its generation, how its last run ended
gates     what its stack waits for, where a plan says so; else whether its DaemonSets are rolled out
nodes     those of the plan, or those with a rail or a fabric's label: Ready, label, rails to give, rails in use
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from trackbed.cluster.api.answer import Object
from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import RefusedError
from trackbed.cluster.rollout import applyset, gates, history, runs
from trackbed.cluster.rollout.applyset import ApplySet
from trackbed.cluster.rollout.offers import allocatable
from trackbed.cluster.rollout.progress import not_ready
from trackbed.cluster.stacks.groups import FABRIC_LABEL
from trackbed.cluster.stacks.install.steps import Install, Labelled, Step
from trackbed.cluster.stacks.rails import OWN_PREFIX
from trackbed.cluster.stacks.stack import Until

_ENDED = "status.phase!=Succeeded,status.phase!=Failed"
"""Pods that hold nothing any more are not asked for."""


@dataclass(frozen=True, slots=True)
class Stood:
    """A gate and how it stands."""

    what: str
    holds: bool
    missing: tuple[str, ...] = ()
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Installed:
    """One installation."""

    name: str
    namespace: str
    members: int
    generation: int
    """How many runs changed something; 0 where nothing is kept of any."""
    run: str
    """How the last of them ended: begun (it broke off), done, undone; empty where nothing is kept."""
    gates: tuple[Stood, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """A node and its rails."""

    name: str
    wrong: tuple[str, ...]
    """What is the matter; empty where nothing is."""
    fabric: str
    """The fabric's label; empty where it has none."""
    rails: int
    """Rails of which there is any to give."""
    allocatable: int
    used: int
    """How many of all rails it has to give, and how many its pods hold."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a plan says of nodes."""

    nodes: tuple[tuple[str, tuple[str, ...]], ...]
    """Name -> resources of its rails."""
    label: str
    """Value of the fabric's label that nodes must have; empty where they need none."""


def installed(client: Client, wanted: Callable[[ApplySet], Sequence[Step] | None]) -> tuple[Installed, ...]:
    """Every installation; `wanted` gives the steps of those of which a plan tells. Raises KubeError."""
    return tuple(_installed(client, of, wanted(of)) for of in applyset.sets(client))


def nodes(client: Client, wanted: Wanted | None) -> tuple[Node, ...]:
    """The nodes of a plan in its order, without one those that have to do with rails by name. Raises KubeError."""
    used = _used(client)
    found = {one["metadata"]["name"]: _brief(one) for one in client.list("v1", "Node")}
    if wanted is None:
        own = ((name, brief) for name, brief in sorted(found.items()) if brief.fabric or brief.rails)
        return tuple(_node(name, brief, tuple(brief.rails), "", used) for name, brief in own)
    return tuple(_node(name, found.get(name), rails, wanted.label, used) for name, rails in wanted.nodes)


@dataclass(frozen=True, slots=True)
class _Brief:
    """What is kept of a node while 12,500 are read."""

    down: str
    fabric: str
    quantities: dict[str, int]

    @property
    def rails(self) -> list[str]:
        """Resources of ours, whether or not there are any left."""
        return [name for name in self.quantities if name.startswith(f"{OWN_PREFIX}/rail")]


def _brief(one: Object) -> _Brief:
    names = one.get("status", {}).get("allocatable", {})
    resources = {name: allocatable(one, name) for name in names if "/" in name}
    return _Brief(not_ready(one), one["metadata"].get("labels", {}).get(FABRIC_LABEL, ""), resources)


def _node(name: str, brief: _Brief | None, rails: Sequence[str], label: str, used: Counter[tuple[str, str]]) -> Node:
    if brief is None:
        return Node(name, ("not in the cluster",), "", 0, 0, 0)
    counts = {rail: brief.quantities.get(rail, 0) for rail in rails}
    lacking = [rail for rail, count in counts.items() if not count]
    wrong = (
        *((brief.down,) if brief.down else ()),
        *((f"no label {FABRIC_LABEL}={label}",) if label and brief.fabric != label else ()),
        *((f"offers no {', '.join(lacking)}",) if lacking else ()),
    )
    held = sum(used[name, rail] for rail in rails)
    return Node(name, wrong, brief.fabric, len(counts) - len(lacking), sum(counts.values()), held)


def _used(client: Client) -> Counter[tuple[str, str]]:
    """Node and resource -> how many its pods hold."""
    found: Counter[tuple[str, str]] = Counter()
    for pod in client.list("v1", "Pod", fields=_ENDED):
        node = pod.get("spec", {}).get("nodeName", "")
        for name, count in _held(pod) if node else ():
            found[node, name] += count
    return found


def _held(pod: Object) -> Iterator[tuple[str, int]]:
    """Extended resources of a pod: those of its containers together, or of an init container that wants more."""
    spec = pod["spec"]
    together = Counter[str]()
    for one in spec.get("containers") or ():
        together.update(_limits(one))
    for one in spec.get("initContainers") or ():
        together |= Counter(_limits(one))
    return iter(together.items())


def _limits(container: Object) -> dict[str, int]:
    listed = container.get("resources", {}).get("limits") or {}
    return {name: int(count) for name, count in listed.items() if "/" in name and str(count).isdecimal()}


def _installed(client: Client, of: ApplySet, steps: Sequence[Step] | None) -> Installed:
    members = list(applyset.members(client, of))
    record = history.latest(client, of)
    stood = _members(client, members) if steps is None else _stages(client, steps)
    return Installed(
        of.name,
        of.namespace,
        len(members),
        record.revision if record else 0,
        record.run if record else "",
        tuple(stood),
    )


def _members(client: Client, members: Iterable[Object]) -> Iterator[Stood]:
    return (_stood(until, _look(client, until)) for until in runs.rolled_out(members))


def _stages(client: Client, steps: Sequence[Step]) -> Iterator[Stood]:
    """The gates of all steps; of charts only what is there, since the site may have left some out."""
    for step in steps:
        if isinstance(step, Labelled):
            yield _labelled(client, step)
        for until in step.until:
            gate = _look(client, until)
            if not (isinstance(step, Install) and gate.absent):
                yield _stood(until, gate)


def _look(client: Client, until: Until) -> gates.Gate:
    try:
        return gates.look(client, until)
    except RefusedError as error:
        return gates.Gate(holds=False, missing=(str(error),), remedy="see what this account may read")


def _stood(until: Until, gate: gates.Gate) -> Stood:
    return Stood(f"{until.resource}: {until.until}", gate.holds, gate.missing, gate.remedy)


def _labelled(client: Client, step: Labelled) -> Stood:
    count = gates.labelled(client, step.label)
    holds = count >= step.nodes
    missing = () if holds else (f"{count} of {step.nodes} nodes have it",)
    return Stood(f"nodes with label {step.label}", holds, missing, "" if holds else gates.LABELLING)
