"""Gates: whether what a stage waits for holds; if not, what is in its way and what a person can do.

A wait is in the words of `kubectl wait` (stacks.stack.Wait). It is looked at, never waited for, here: who asks decides
how long, and shows what is missing in the meantime.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trackbed.kube.client import Client, Object
from trackbed.kube.discovery import Resource
from trackbed.kube.errors import UnknownKindError
from trackbed.kube.workload import hindered
from trackbed.stacks.stack import Wait

_SHOWN = 5
"""Objects told of at once."""
_REASONS = ("lastSyncError", "reason", "message")
"""Where operators say in `status` what is wrong."""


@dataclass(frozen=True, slots=True)
class Gate:
    """How a wait stands."""

    holds: bool
    missing: tuple[str, ...] = ()
    """A line for each object in the way, at most a few."""


def look(client: Client, wait: Wait) -> Gate:
    """How a wait stands now. KubeError where the server cannot say."""
    try:
        resource, found = _targets(client, wait)
    except UnknownKindError as error:
        return Gate(holds=False, missing=(f"{error}: `helm list --all-namespaces` shows whether it is installed",))
    if not found:
        return Gate(holds=False, missing=(_absent(resource, wait),))
    unmet = [one for one in found if not _meets(one, wait.until)]
    lines = tuple(line for one in unmet[:_SHOWN] for line in _told(client, one, wait))
    more = (f"and {len(unmet) - _SHOWN} more",) if len(unmet) > _SHOWN else ()
    return Gate(not unmet, lines + more)


def _targets(client: Client, wait: Wait) -> tuple[Resource, Sequence[Object]]:
    """The kind that is waited for, and those objects of it that are there."""
    first, *options = shlex.split(wait.resource)
    word, _, name = first.partition("/")
    resource = client.called(word)
    where = (resource.group_version, resource.kind)
    if not name:
        selector = next((one.partition("=")[2] for one in options if one.startswith("--selector=")), "")
        return resource, list(client.list(*where, wait.namespace, selector=selector))
    found = client.find(*where, name, wait.namespace)
    return resource, [] if found is None else [found]


def _absent(resource: Resource, wait: Wait) -> str:
    where = f" in namespace {wait.namespace}" if wait.namespace else ""
    pods = f"`kubectl get pods --namespace {wait.namespace}`" if wait.namespace else "`kubectl get pods -A`"
    if "--selector=" in wait.resource:
        return f"no {resource.kind} has label {wait.resource.partition('--selector=')[2]}; {pods} shows who sets it"
    named = wait.resource if "/" in wait.resource else resource.kind
    return f"there is no {named}{where} yet; {pods} shows whether its operator runs"


def _meets(one: Object, until: str) -> bool:
    kind, _, wanted = until.partition("=")
    if kind == "condition":
        return condition(one, wanted).get("status") == "True"
    path, _, value = wanted.rpartition("=")
    return _text(_at(one, path)) == value


def condition(one: Object, kind: str) -> Object:
    """A condition of an object by its type; empty where it has none such."""
    listed: Sequence[Object] = one.get("status", {}).get("conditions") or ()
    return next((entry for entry in listed if entry.get("type") == kind), {})


def _at(one: Object, path: str) -> Any:  # noqa: ANN401 - whatever stands there
    r"""What a JSON path of plain keys leads to, {.status.allocatable.example\.com/rail0}; None where nothing is."""
    found: Any = one
    for key in re.split(r"(?<!\\)\.", path.strip("{}").lstrip(".")):
        found = found.get(key.replace("\\.", ".")) if isinstance(found, dict) else None
    return found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _told(client: Client, one: Object, wait: Wait) -> Iterator[str]:
    """What keeps an object from what is waited for: its own words first, then those of its pods."""
    name = f"{one['kind']} {one['metadata']['name']}"
    yield f"{name}: {_short_of(one, wait.until)}{_own_words(one, wait.until)}"
    yield from (f"{name}: {line}" for line in hindered(client, one))


def _short_of(one: Object, until: str) -> str:
    kind, _, wanted = until.partition("=")
    if kind == "condition":
        status = condition(one, wanted).get("status")
        return f"{wanted} is {status}" if status else f"says nothing of {wanted} yet"
    path, _, value = wanted.rpartition("=")
    have = _at(one, path)
    last = re.split(r"(?<!\\)\.", path.strip("{}"))[-1].replace("\\.", ".")
    return f"{last} is {_text(have)}, not {value}" if have is not None else f"has no {last} yet"


def _own_words(one: Object, until: str) -> str:
    kind, _, wanted = until.partition("=")
    said = condition(one, wanted) if kind == "condition" else one.get("status", {})
    words = [str(said[key]) for key in _REASONS if said.get(key)]
    return f" ({': '.join(words)})" if words else ""
