"""Gates: whether the condition that a step waits for is met; if not, the missing objects and a remedy.

A wait has the syntax of `kubectl wait` (stacks.stack.Wait). Each call checks a gate once; the caller decides how long
to wait, and shows the missing objects in the meantime.

    progress    what an object lacks for the condition, by its status
    workload    why pods are missing
    offers      which nodes do not offer their resources
"""

import shlex
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from trackbed.cluster.api.discovery import ApiResource
from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import UnknownKindError
from trackbed.cluster.api.response import Object
from trackbed.cluster.causes.catalogue import diagnose
from trackbed.cluster.rollout.blocked_drain import describe_blocked_drain
from trackbed.cluster.rollout.offers import find_missing_offers
from trackbed.cluster.rollout.progress import describe_shortfall, describe_unready, is_draining, meets_condition
from trackbed.cluster.rollout.remedies import suggest_remedy
from trackbed.cluster.rollout.workload import explain_missing_pods
from trackbed.cluster.stacks.stack import AnyWait, ResourceWait, Wait

LABEL_REMEDY = "compare node and port names with those in the NodeFeatureRule, and see that NFD runs"
"""Remedy for nodes without the fabric's label."""

_MAX_SHOWN_OBJECTS = 5
"""Largest number of objects that are described."""
_NAMED_AS_NODES = frozenset({"SriovNetworkNodeState"})
"""Kinds whose objects are named after a node."""


@dataclass(frozen=True, slots=True)
class Gate:
    """The state of a gate at one check."""

    holds: bool
    missing: tuple[str, ...] = ()
    """A line for each of the first few missing objects."""
    remedy: str = ""
    """What to do; empty if the gate holds."""
    absent: bool = False
    """Whether the object or its kind does not exist."""


async def check_gate(client: DynamicClient, wait: AnyWait) -> Gate:
    """Return the gate of a wait: whether its condition is met now. Raises KubeError."""
    if isinstance(wait, ResourceWait):
        missing, remedy = await find_missing_offers(client, wait)
        return Gate(not missing, missing, remedy)
    try:
        target = _parse_resource(wait)
        resource = await client.resolve_kind(target.kind)
        return await _build_gate(client, wait, resource, _iter_targets(client, wait, resource, target))
    except UnknownKindError as error:
        shows = "`helm list --all-namespaces` shows whether it is installed"
        return Gate(holds=False, missing=(str(error),), remedy=shows, absent=True)


async def count_labelled_nodes(client: DynamicClient, label: str) -> int:
    """Return the number of nodes with a label (NAME=VALUE). Raises KubeError."""
    return len([None async for _ in client.iter_objects("v1", "Node", selector=label)])


class _Target(NamedTuple):
    """The objects of a wait: by name, or all of a kind that match a label selector (all if it is empty)."""

    kind: str
    name: str
    selector: str


def _parse_resource(wait: Wait) -> _Target:
    """Return the objects that a wait names."""
    first, *options = shlex.split(wait.resource)
    kind_name, _, name = first.partition("/")
    selector = next((option.partition("=")[2] for option in options if option.startswith("--selector=")), "")
    return _Target(kind_name, name, selector)


async def _iter_targets(
    client: DynamicClient, wait: Wait, resource: ApiResource, target: _Target
) -> AsyncIterator[Object]:
    """Yield the named object, or all objects that match the selector; nothing if there is none."""
    kind = (resource.group_version, resource.kind)
    if not target.name:
        async for body in client.iter_objects(*kind, wait.namespace, selector=target.selector):
            yield body
    elif (named := await client.find(*kind, target.name, wait.namespace)) is not None:
        yield named


async def _build_gate(client: DynamicClient, wait: Wait, resource: ApiResource, targets: AsyncIterator[Object]) -> Gate:
    """Return the gate of a wait for `targets`. Only the first few are kept, since there may be thousands."""
    total, unmet = 0, 0
    first: list[Object] = []
    async for body in targets:
        total += 1
        if not meets_condition(body, wait.condition):
            unmet += 1
            first += [body] if unmet <= _MAX_SHOWN_OBJECTS else []
    if not total:
        return _build_absent_gate(resource, wait)
    lines = [line for body in first for line in await _describe_object(client, body, wait.condition)]
    known = next((cause for line in lines if (cause := diagnose(line))), None)
    lines += [f"and {unmet - _MAX_SHOWN_OBJECTS} more"] if unmet > _MAX_SHOWN_OBJECTS else []
    return Gate(not unmet, tuple(lines), known.fix if known else suggest_remedy(first[0]) if first else "")


def _build_absent_gate(resource: ApiResource, wait: Wait) -> Gate:
    """Return an unmet gate for a wait whose objects do not exist yet."""
    where = f" in namespace {wait.namespace}" if wait.namespace else ""
    name = wait.resource if "/" in wait.resource else resource.kind
    missing, shows = f"there is no {name}{where} yet", "shows whether its operator runs"
    if "--selector=" in wait.resource:
        missing = f"no {resource.kind} has label {wait.resource.partition('--selector=')[2]}"
        shows = "shows who sets it"
    pods = f"`kubectl get pods --namespace {wait.namespace}`" if wait.namespace else "`kubectl get pods -A`"
    return Gate(holds=False, missing=(missing,), remedy=f"{pods} {shows}", absent=True)


async def _describe_object(client: DynamicClient, body: Object, condition: str) -> list[str]:
    """Return what an object lacks for a condition: lines from its status, its pods and its node."""
    lines = [describe_shortfall(body, condition), *await explain_missing_pods(client, body)]
    if body["kind"] in _NAMED_AS_NODES:
        name = body["metadata"]["name"]
        lines += _describe_node(await client.find("v1", "Node", name))
        lines = [*(await describe_blocked_drain(client, name) if is_draining(body) else ()), *lines]
    return [f"{body['kind']} {body['metadata']['name']}: {_name_cause(line)}{line}" for line in lines]


def _name_cause(line: str) -> str:
    """Return the cause of a status, to be written before it; empty if it is not known."""
    cause = diagnose(line)
    return f"{cause.title} ({cause.id}): " if cause else ""


def _describe_node(node: Object | None) -> Iterator[str]:
    if node is None:
        yield "there is no such node"
    elif why := describe_unready(node):
        yield f"its node is {why}"
    elif node.get("spec", {}).get("unschedulable"):
        yield "its node is cordoned"
