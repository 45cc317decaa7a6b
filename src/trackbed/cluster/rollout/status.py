"""Read-only status of the installations of Trackbed on a cluster.

sets      every installation, by the parent of its ApplySet: members, generation, state of its last run
gates     the gates of the installation's stack; without a plan the roll-out of its DaemonSets
nodes     nodes of the plan, else nodes with a rail or a fabric's label: Ready, label, rails offered, rails in use
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout.applyset import ApplySet, iter_applysets, iter_members
from trackbed.cluster.rollout.gates import LABEL_REMEDY, Gate, check_gate, count_labelled_nodes
from trackbed.cluster.rollout.history import read_latest_record
from trackbed.cluster.rollout.offers import count_allocatable
from trackbed.cluster.rollout.progress import describe_unready
from trackbed.cluster.rollout.recorded_run import build_rollout_waits
from trackbed.cluster.stacks.groups import FABRIC_LABEL
from trackbed.cluster.stacks.install.steps import InstallChart, Step, WaitForLabel
from trackbed.cluster.stacks.rails import DEFAULT_PREFIX
from trackbed.cluster.stacks.stack import AnyWait

_NOT_FINISHED = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector for pods that hold resources."""
_ENDING_REMEDY = (
    "start the operator that owns the finalizer, which then lets the object go; if it is gone for good, take the "
    "finalizer out of metadata.finalizers, and delete what the operator made of the object"
)
"""Remedy for an object that is deleted but does not go."""


@dataclass(frozen=True, slots=True)
class GateStatus:
    """The state of a gate; `what` is its resource and condition."""

    what: str
    holds: bool
    missing: tuple[str, ...] = ()
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Installation:
    """An installation of Trackbed, and the state of its gates."""

    name: str
    namespace: str
    members: int
    generation: int
    """Number of runs that changed an object; 0 without a record."""
    run: str
    """State of the last run that changed an object: begun (interrupted), done, undone; empty without a record."""
    gates: tuple[GateStatus, ...]


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """A node, its problems, and counts of its rails."""

    name: str
    wrong: tuple[str, ...]
    """Problems of the node; empty if there are none."""
    fabric: str
    """Value of the fabric's label; empty without the label."""
    rails: int
    """Number of rails for which the node offers a resource."""
    allocatable: int
    """Quantity of the resources of all rails that the node offers."""
    used: int
    """Quantity of the resources of all rails that the node's pods hold."""


@dataclass(frozen=True, slots=True)
class ExpectedNodes:
    """The nodes that a plan expects."""

    nodes: tuple[tuple[str, tuple[str, ...]], ...]
    """Names of nodes, each with the resources of its rails."""
    label: str
    """Value of the fabric's label that nodes must have; empty if no label is needed."""


async def list_installations(
    client: DynamicClient, find_steps: Callable[[ApplySet], Sequence[Step] | None]
) -> tuple[Installation, ...]:
    """Return every installation. `find_steps` returns the steps of a set; None without a plan. Raises KubeError."""
    sets = [applyset async for applyset in iter_applysets(client)]
    return tuple([await _read_installation(client, applyset, find_steps(applyset)) for applyset in sets])


async def list_node_summaries(client: DynamicClient, expected: ExpectedNodes | None) -> tuple[NodeSummary, ...]:
    """Return the expected nodes in the plan's order; without a plan the nodes with rails by name. Raises KubeError."""
    used = await _count_used_resources(client)
    states = {node["metadata"]["name"]: _read_node_state(node) async for node in client.iter_objects("v1", "Node")}
    if expected is None:
        ours = ((name, state) for name, state in sorted(states.items()) if state.fabric or state.rails)
        return tuple(_summarize_node(name, state, tuple(state.rails), "", used) for name, state in ours)
    return tuple(_summarize_node(name, states.get(name), rails, expected.label, used) for name, rails in expected.nodes)


@dataclass(frozen=True, slots=True)
class _NodeState:
    """The fields of a Node that are used; the rest is dropped, since there may be 12,500 nodes."""

    unready: str
    fabric: str
    quantities: dict[str, int]

    @property
    def rails(self) -> list[str]:
        """Names of the resources of rails, including those with quantity 0."""
        return [name for name in self.quantities if name.startswith(f"{DEFAULT_PREFIX}/rail")]


def _read_node_state(node: Object) -> _NodeState:
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


async def _count_used_resources(client: DynamicClient) -> Counter[tuple[str, str]]:
    """Return (node, resource) -> quantity that pods on the node hold. Raises KubeError."""
    counts: Counter[tuple[str, str]] = Counter()
    async for pod in client.iter_objects("v1", "Pod", fields=_NOT_FINISHED):
        node = pod.get("spec", {}).get("nodeName", "")
        for name, count in _count_resources(pod).items() if node else ():
            counts[node, name] += count
    return counts


def _count_resources(pod: Object) -> Counter[str]:
    """Return a pod's extended resources: the sum over its containers, or the need of an init container if larger."""
    total = Counter[str]()
    for container in pod["spec"].get("containers") or ():
        total.update(_read_limits(container))
    for container in pod["spec"].get("initContainers") or ():
        total |= Counter(_read_limits(container))
    return total


def _read_limits(container: Object) -> dict[str, int]:
    """Return the extended resources in a container's limits: name -> quantity."""
    limits = container.get("resources", {}).get("limits") or {}
    return {name: int(count) for name, count in limits.items() if "/" in name and str(count).isdecimal()}


async def _read_installation(client: DynamicClient, applyset: ApplySet, steps: Sequence[Step] | None) -> Installation:
    members = [member async for member in iter_members(client, applyset)]
    record = await read_latest_record(client, applyset)
    revision, run = (record.revision, record.state) if record else (0, "")
    if steps is None:
        gates = [await _check_gate(client, until) for until in build_rollout_waits(members)]
        statuses = [status for _, status in gates]
    else:
        statuses = [status async for status in _iter_gate_statuses(client, steps)]
    ending = [status for member in members for status in _describe_ending(member)]
    return Installation(applyset.name, applyset.namespace, len(members), revision, run, (*ending, *statuses))


def _describe_ending(member: Object) -> Iterator[GateStatus]:
    """Yield the status of a member that was deleted and is kept by finalizers."""
    metadata = member["metadata"]
    if "deletionTimestamp" in metadata:
        keepers = ", ".join(metadata.get("finalizers") or ()) or "no finalizer"
        name = f"{member['kind']} {metadata['name']}"
        missing = f"{name} was deleted at {metadata['deletionTimestamp']} and waits for {keepers}"
        yield GateStatus(f"{name}: exists", holds=False, missing=(missing,), remedy=_ENDING_REMEDY)


async def _iter_gate_statuses(client: DynamicClient, steps: Sequence[Step]) -> AsyncIterator[GateStatus]:
    """Yield the gates of all steps. Gates of absent charts are skipped: the site may not need them."""
    for step in steps:
        if isinstance(step, WaitForLabel):
            yield await _check_labels(client, step)
        for until in step.waits:
            gate, status = await _check_gate(client, until)
            if not (isinstance(step, InstallChart) and gate.absent):
                yield status


async def _check_gate(client: DynamicClient, wait: AnyWait) -> tuple[Gate, GateStatus]:
    """Return the gate of a wait, and its status; a refused request closes the gate. Raises KubeError."""
    try:
        gate = await check_gate(client, wait)
    except ApiRefusedError as error:
        gate = Gate(holds=False, missing=(str(error),), remedy="see what this account may read")
    except (TypeError, ValueError, LookupError, AttributeError) as error:  # one object must not hide the others
        missing = f"the status of an object is not understood: {error!r}"
        gate = Gate(holds=False, missing=(missing,), remedy=f"`kubectl get {wait.resource} -o yaml` shows it")
    return gate, GateStatus(f"{wait.resource}: {wait.condition}", gate.holds, gate.missing, gate.remedy)


async def _check_labels(client: DynamicClient, step: WaitForLabel) -> GateStatus:
    """Return whether all nodes of a step have the fabric's label. Raises KubeError."""
    count = await count_labelled_nodes(client, step.label)
    holds = count >= step.node_count
    missing = () if holds else (f"{count} of {step.node_count} nodes have it",)
    return GateStatus(f"nodes with label {step.label}", holds, missing, "" if holds else LABEL_REMEDY)
