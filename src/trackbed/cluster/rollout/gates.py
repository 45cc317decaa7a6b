"""Gates: whether what a stage waits for holds; if not, what is in its way and what a person can do.

A wait is in the words of `kubectl wait` (stacks.stack.Wait). It is looked at, never waited for, here: who asks decides
how long, and shows what is missing in the meantime.

    kube.progress    how far one object is from what is waited for, in its operator's words
    kube.workload    why pods are not there
    kube.offers      which nodes do not offer what they must
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from trackbed.cluster.api.client import Client, Object
from trackbed.cluster.api.discovery import Resource
from trackbed.cluster.api.errors import UnknownKindError
from trackbed.cluster.rollout import offers
from trackbed.cluster.rollout.progress import meets, not_ready, short_of
from trackbed.cluster.rollout.remedies import remedy
from trackbed.cluster.rollout.workload import hindered
from trackbed.cluster.stacks.stack import Offered, Until, Wait

LABELLING = "compare node and port names with those in the NodeFeatureRule, and see that NFD runs"
"""What to do where nodes do not get the fabric's label."""

_SHOWN = 5
"""Objects told of at once."""
_NAMED_AS_NODES = frozenset({"SriovNetworkNodeState"})
"""Kinds of which each object tells of the node whose name it has."""


@dataclass(frozen=True, slots=True)
class Gate:
    """How a wait stands."""

    holds: bool
    missing: tuple[str, ...] = ()
    """A line for each object in the way, at most a few."""
    remedy: str = ""
    """What a person can do; empty where it holds."""
    absent: bool = False
    """Whether what is waited for is not there at all."""


def look(client: Client, until: Until) -> Gate:
    """How a wait stands now. KubeError where the server cannot say."""
    if isinstance(until, Offered):
        missing, what = offers.lacking(client, until)
        return Gate(not missing, missing, what)
    try:
        resource, found = _targets(client, until)
    except UnknownKindError as error:
        shows = "`helm list --all-namespaces` shows whether it is installed"
        return Gate(holds=False, missing=(str(error),), remedy=shows, absent=True)
    return _judged(client, until, resource, found)


def labelled(client: Client, label: str) -> int:
    """How many nodes have a label, NAME=VALUE."""
    return sum(1 for _ in client.list("v1", "Node", selector=label))


def _targets(client: Client, wait: Wait) -> tuple[Resource, Iterable[Object]]:
    """The kind that is waited for, and those objects of it that are there."""
    first, *options = shlex.split(wait.resource)
    word, _, name = first.partition("/")
    resource = client.called(word)
    where = (resource.group_version, resource.kind)
    if not name:
        selector = next((one.partition("=")[2] for one in options if one.startswith("--selector=")), "")
        return resource, client.list(*where, wait.namespace, selector=selector)
    found = client.find(*where, name, wait.namespace)
    return resource, [] if found is None else [found]


def _judged(client: Client, wait: Wait, resource: Resource, found: Iterable[Object]) -> Gate:
    """What is told of the first few that fall short; thousands are counted, never kept."""
    there, unmet = 0, 0
    first: list[Object] = []
    for one in found:
        there += 1
        if not meets(one, wait.until):
            unmet += 1
            first += [one] if unmet <= _SHOWN else []
    if not there:
        return _absent(resource, wait)
    lines = tuple(line for one in first for line in _told(client, one, wait.until))
    more = (f"and {unmet - _SHOWN} more",) if unmet > _SHOWN else ()
    return Gate(not unmet, lines + more, remedy(first[0]) if first else "")


def _absent(resource: Resource, wait: Wait) -> Gate:
    where = f" in namespace {wait.namespace}" if wait.namespace else ""
    named = wait.resource if "/" in wait.resource else resource.kind
    missing, shows = f"there is no {named}{where} yet", "shows whether its operator runs"
    if "--selector=" in wait.resource:
        missing = f"no {resource.kind} has label {wait.resource.partition('--selector=')[2]}"
        shows = "shows who sets it"
    pods = f"`kubectl get pods --namespace {wait.namespace}`" if wait.namespace else "`kubectl get pods -A`"
    return Gate(holds=False, missing=(missing,), remedy=f"{pods} {shows}", absent=True)


def _told(client: Client, one: Object, until: str) -> Iterator[str]:
    """What keeps an object from what is waited for: its own words, those of its pods, those of its node."""
    name = f"{one['kind']} {one['metadata']['name']}"
    yield f"{name}: {short_of(one, until)}"
    yield from (f"{name}: {line}" for line in hindered(client, one))
    if one["kind"] in _NAMED_AS_NODES:
        yield from (f"{name}: {line}" for line in _of_node(client.find("v1", "Node", one["metadata"]["name"])))


def _of_node(node: Object | None) -> Iterator[str]:
    if node is None:
        yield "there is no such node"
    elif why := not_ready(node):
        yield f"its node is {why}"
    elif node.get("spec", {}).get("unschedulable"):
        yield "its node is cordoned"
