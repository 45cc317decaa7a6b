"""Gates: whether the condition that a stage waits for holds; if not, the missing objects and a remedy.

A wait has the syntax of `kubectl wait` (stacks.stack.Wait). A gate is checked once here; the caller decides how long
to wait, and shows the missing objects in the meantime.

    progress    how far one object is from the condition, by its operator's status
    workload    why pods are missing
    offers      which nodes do not offer their resources
"""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from trackbed.cluster.api.discovery import ApiResource
from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import UnknownKindError
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout.offers import find_missing_offers
from trackbed.cluster.rollout.progress import describe_shortfall, describe_unready, is_met
from trackbed.cluster.rollout.remedies import suggest_remedy
from trackbed.cluster.rollout.workload import explain_missing_pods
from trackbed.cluster.stacks.stack import Offered, Until, Wait

LABELLING = "compare node and port names with those in the NodeFeatureRule, and see that NFD runs"
"""Remedy for nodes that do not get the fabric's label."""

_SHOWN = 5
"""Objects described at once."""
_NAMED_AS_NODES = frozenset({"SriovNetworkNodeState"})
"""Kinds whose objects have the name of a node."""


@dataclass(frozen=True, slots=True)
class Gate:
    """The state of a wait."""

    holds: bool
    missing: tuple[str, ...] = ()
    """A line for each object in the way, at most a few."""
    remedy: str = ""
    """A remedy; empty where the gate holds."""
    absent: bool = False
    """Whether the object or kind does not exist at all."""


async def check_gate(client: DynamicClient, until: Until) -> Gate:
    """Check a wait once. Raises KubeError."""
    if isinstance(until, Offered):
        missing, remedy = await find_missing_offers(client, until)
        return Gate(not missing, missing, remedy)
    try:
        word, name, selector = _parse_resource(until)
        resource = await client.find_kind(word)
        return await _judge(client, until, resource, _read_targets(client, until, resource, name, selector))
    except UnknownKindError as error:
        shows = "`helm list --all-namespaces` shows whether it is installed"
        return Gate(holds=False, missing=(str(error),), remedy=shows, absent=True)


async def count_labelled_nodes(client: DynamicClient, label: str) -> int:
    """Return how many nodes have a label, NAME=VALUE."""
    return len([None async for _ in client.list("v1", "Node", selector=label)])


def _parse_resource(wait: Wait) -> tuple[str, str, str]:
    """Return kind, name and label selector of a wait."""
    first, *options = shlex.split(wait.resource)
    word, _, name = first.partition("/")
    selector = next((option.partition("=")[2] for option in options if option.startswith("--selector=")), "")
    return word, name, selector


async def _read_targets(
    client: DynamicClient, wait: Wait, resource: ApiResource, name: str, selector: str
) -> AsyncIterator[Object]:
    """Yield the objects of a wait that exist."""
    kind = (resource.group_version, resource.kind)
    if not name:
        async for body in client.list(*kind, wait.namespace, selector=selector):
            yield body
    elif (named := await client.find(*kind, name, wait.namespace)) is not None:
        yield named


async def _judge(client: DynamicClient, wait: Wait, resource: ApiResource, targets: AsyncIterator[Object]) -> Gate:
    """Describe the first few objects that fall short; thousands are counted, never kept."""
    total, unmet = 0, 0
    first: list[Object] = []
    async for body in targets:
        total += 1
        if not is_met(body, wait.until):
            unmet += 1
            first += [body] if unmet <= _SHOWN else []
    if not total:
        return _describe_absence(resource, wait)
    lines = [line for body in first for line in await _describe(client, body, wait.until)]
    lines += [f"and {unmet - _SHOWN} more"] if unmet > _SHOWN else []
    return Gate(not unmet, tuple(lines), suggest_remedy(first[0]) if first else "")


def _describe_absence(resource: ApiResource, wait: Wait) -> Gate:
    where = f" in namespace {wait.namespace}" if wait.namespace else ""
    name = wait.resource if "/" in wait.resource else resource.kind
    missing, shows = f"there is no {name}{where} yet", "shows whether its operator runs"
    if "--selector=" in wait.resource:
        missing = f"no {resource.kind} has label {wait.resource.partition('--selector=')[2]}"
        shows = "shows who sets it"
    pods = f"`kubectl get pods --namespace {wait.namespace}`" if wait.namespace else "`kubectl get pods -A`"
    return Gate(holds=False, missing=(missing,), remedy=f"{pods} {shows}", absent=True)


async def _describe(client: DynamicClient, body: Object, until: str) -> list[str]:
    """Return what an object lacks: by its status, its pods, and its node."""
    lines = [describe_shortfall(body, until), *await explain_missing_pods(client, body)]
    if body["kind"] in _NAMED_AS_NODES:
        lines += _describe_node(await client.find("v1", "Node", body["metadata"]["name"]))
    return [f"{body['kind']} {body['metadata']['name']}: {line}" for line in lines]


def _describe_node(node: Object | None) -> Iterator[str]:
    if node is None:
        yield "there is no such node"
    elif why := describe_unready(node):
        yield f"its node is {why}"
    elif node.get("spec", {}).get("unschedulable"):
        yield "its node is cordoned"
