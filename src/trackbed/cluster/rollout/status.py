"""Read-only status of the installations of Trackbed on a cluster.

sets      every installation, by the parents of its ApplySet; its members, its generation, how its last run ended
gates     the conditions that its stack waits for, with a plan; else whether its DaemonSets are rolled out
nodes     those of the plan, or those with a rail or a fabric's label: Ready, label, rails offered, rails in use
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout.applyset import ApplySet, list_applysets, list_members
from trackbed.cluster.rollout.gates import LABELLING, Gate, check_gate, count_labelled_nodes
from trackbed.cluster.rollout.history import read_latest
from trackbed.cluster.rollout.offers import count_allocatable
from trackbed.cluster.rollout.progress import describe_unready
from trackbed.cluster.rollout.recorded_run import build_rollout_waits
from trackbed.cluster.stacks.groups import FABRIC_LABEL
from trackbed.cluster.stacks.install.steps import Install, Labelled, Step
from trackbed.cluster.stacks.rails import OWN_PREFIX
from trackbed.cluster.stacks.stack import Until

_NOT_FINISHED = "status.phase!=Succeeded,status.phase!=Failed"
"""Finished pods hold no resources and are not read."""


@dataclass(frozen=True, slots=True)
class GateStatus:
    """A gate and its state."""

    what: str
    holds: bool
    missing: tuple[str, ...] = ()
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Installation:
    """One installation."""

    name: str
    namespace: str
    members: int
    generation: int
    """How many runs changed something; 0 without a record."""
    run: str
    """How the last of them ended: begun (it was interrupted), done, undone; empty without a record."""
    gates: tuple[GateStatus, ...]


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """A node and its rails."""

    name: str
    wrong: tuple[str, ...]
    """Problems; empty where there are none."""
    fabric: str
    """The fabric's label; empty where it has none."""
    rails: int
    """Rails of which the node offers at least one."""
    allocatable: int
    used: int
    """How many of all rails the node offers, and how many its pods hold."""


@dataclass(frozen=True, slots=True)
class ExpectedNodes:
    """Requirements of a plan for nodes."""

    nodes: tuple[tuple[str, tuple[str, ...]], ...]
    """Name -> resources of its rails."""
    label: str
    """Value of the fabric's label that nodes must have; empty where they need none."""


async def list_installations(
    client: DynamicClient, find_steps: Callable[[ApplySet], Sequence[Step] | None]
) -> tuple[Installation, ...]:
    """Return every installation; `find_steps` returns the steps of those with a plan. Raises KubeError."""
    sets = [applyset async for applyset in list_applysets(client)]
    return tuple([await _read_installation(client, applyset, find_steps(applyset)) for applyset in sets])


async def list_nodes(client: DynamicClient, expected: ExpectedNodes | None) -> tuple[NodeSummary, ...]:
    """Return the nodes of a plan in its order; without a plan those with rails, by name. Raises KubeError."""
    used = await _count_used(client)
    states = {node["metadata"]["name"]: _read_node(node) async for node in client.list("v1", "Node")}
    if expected is None:
        ours = ((name, state) for name, state in sorted(states.items()) if state.fabric or state.rails)
        return tuple(_summarize_node(name, state, tuple(state.rails), "", used) for name, state in ours)
    return tuple(_summarize_node(name, states.get(name), rails, expected.label, used) for name, rails in expected.nodes)


@dataclass(frozen=True, slots=True)
class _NodeState:
    """The fields of a node that are needed, as 12,500 nodes may be read."""

    unready: str
    fabric: str
    quantities: dict[str, int]

    @property
    def rails(self) -> list[str]:
        """Our resources, used up or not."""
        return [name for name in self.quantities if name.startswith(f"{OWN_PREFIX}/rail")]


def _read_node(node: Object) -> _NodeState:
    names = node.get("status", {}).get("allocatable", {})
    resources = {name: count_allocatable(node, name) for name in names if "/" in name}
    return _NodeState(describe_unready(node), node["metadata"].get("labels", {}).get(FABRIC_LABEL, ""), resources)


def _summarize_node(
    name: str, state: _NodeState | None, rails: Sequence[str], label: str, used: Counter[tuple[str, str]]
) -> NodeSummary:
    if state is None:
        return NodeSummary(name, ("not in the cluster",), "", 0, 0, 0)
    counts = {rail: state.quantities.get(rail, 0) for rail in rails}
    lacking = [rail for rail, count in counts.items() if not count]
    wrong = (
        *((state.unready,) if state.unready else ()),
        *((f"no label {FABRIC_LABEL}={label}",) if label and state.fabric != label else ()),
        *((f"offers no {', '.join(lacking)}",) if lacking else ()),
    )
    held = sum(used[name, rail] for rail in rails)
    return NodeSummary(name, wrong, state.fabric, len(counts) - len(lacking), sum(counts.values()), held)


async def _count_used(client: DynamicClient) -> Counter[tuple[str, str]]:
    """Return (node, resource) -> how many its pods hold."""
    counts: Counter[tuple[str, str]] = Counter()
    async for pod in client.list("v1", "Pod", fields=_NOT_FINISHED):
        node = pod.get("spec", {}).get("nodeName", "")
        for name, count in _count_resources(pod).items() if node else ():
            counts[node, name] += count
    return counts


def _count_resources(pod: Object) -> Counter[str]:
    """Return extended resources of a pod: the sum of its containers, or an init container that takes more."""
    total = Counter[str]()
    for container in pod["spec"].get("containers") or ():
        total.update(_read_limits(container))
    for container in pod["spec"].get("initContainers") or ():
        total |= Counter(_read_limits(container))
    return total


def _read_limits(container: Object) -> dict[str, int]:
    limits = container.get("resources", {}).get("limits") or {}
    return {name: int(count) for name, count in limits.items() if "/" in name and str(count).isdecimal()}


async def _read_installation(client: DynamicClient, applyset: ApplySet, steps: Sequence[Step] | None) -> Installation:
    members = [member async for member in list_members(client, applyset)]
    record = await read_latest(client, applyset)
    revision, run = (record.revision, record.run) if record else (0, "")
    if steps is None:
        gates = [await _check(client, until) for until in build_rollout_waits(members)]
        statuses = [status for _, status in gates]
    else:
        statuses = [status async for status in _check_steps(client, steps)]
    return Installation(applyset.name, applyset.namespace, len(members), revision, run, tuple(statuses))


async def _check_steps(client: DynamicClient, steps: Sequence[Step]) -> AsyncIterator[GateStatus]:
    """Yield the gates of all steps; absent charts are left out, since the site may not have installed them."""
    for step in steps:
        if isinstance(step, Labelled):
            yield await _check_labels(client, step)
        for until in step.until:
            gate, status = await _check(client, until)
            if not (isinstance(step, Install) and gate.absent):
                yield status


async def _check(client: DynamicClient, until: Until) -> tuple[Gate, GateStatus]:
    try:
        gate = await check_gate(client, until)
    except ApiRefusedError as error:
        gate = Gate(holds=False, missing=(str(error),), remedy="see what this account may read")
    return gate, GateStatus(f"{until.resource}: {until.until}", gate.holds, gate.missing, gate.remedy)


async def _check_labels(client: DynamicClient, step: Labelled) -> GateStatus:
    count = await count_labelled_nodes(client, step.label)
    holds = count >= step.nodes
    missing = () if holds else (f"{count} of {step.nodes} nodes have it",)
    return GateStatus(f"nodes with label {step.label}", holds, missing, "" if holds else LABELLING)
