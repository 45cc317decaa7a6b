"""What a roll-out would change, asked of the server by dry runs: with its own defaults and its admission."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from trackbed.cluster.api.answer import Object
from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import RefusedError, UnknownKindError
from trackbed.cluster.rollout import applyset
from trackbed.cluster.rollout.applyset import ApplySet
from trackbed.cluster.rollout.rollout import Change, Manner, called
from trackbed.cluster.stacks.install.steps import Apply, Install, Step

BY_HELM = "installed or upgraded by helm"
"""What becomes of a chart: only helm could say more."""

_NOT_FOUND, _CONFLICT = 404, 409
_SERVERS = frozenset({"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"})
"""What only the server writes, in metadata."""


def preview(client: Client, of: ApplySet, manner: Manner, steps: Iterable[Step]) -> Iterator[Change]:
    """What would become of each chart and object, those that are wanted no longer last. KubeError: nobody can say."""
    wanted = set()
    for step in steps:
        if isinstance(step, Install) and manner.install is not None:
            yield Change(f"chart {step.release} {step.version}", BY_HELM)
        for one in step.objects if isinstance(step, Apply) else ():
            change, place = _of(client, of, manner, one)
            wanted.add(place)
            yield change
    for one in applyset.members(client, of):
        if applyset.place(one) not in wanted:
            yield Change(called(one), "removed")


def _of(client: Client, of: ApplySet, manner: Manner, one: Object) -> tuple[Change, applyset.Place]:
    member = manner.applied(of, one)
    try:
        answer = client.apply(member, manager=manner.manager, force=manner.force, dry_run=True).body
    except UnknownKindError:
        return Change(called(one), "created, once its kind is there"), applyset.place(one)
    except RefusedError as error:
        if error.status == _NOT_FOUND:
            return Change(called(one), "created, once its namespace is there"), applyset.place(one)
        if error.status != _CONFLICT:
            raise
        return Change(called(one), "conflict", (error.message,)), applyset.place(one)
    place = applyset.place(answer)
    before = _live(client, answer)
    if before is None:
        return Change(called(answer), "created"), place
    fields = tuple(differences(_told(before), _told(answer)))
    return Change(called(answer), "changed" if fields else "same", fields), place


def _live(client: Client, one: Object) -> Object | None:
    metadata = one["metadata"]
    return client.find(one["apiVersion"], one["kind"], metadata["name"], metadata.get("namespace"))


def _told(one: Object) -> Object:
    """An object without what only servers and controllers write."""
    metadata = {key: value for key, value in one["metadata"].items() if key not in _SERVERS}
    return {**{key: value for key, value in one.items() if key != "status"}, "metadata": metadata}


def differences(have: Any, want: Any, path: str = "") -> Iterator[str]:  # noqa: ANN401 - any part of an object
    """A line for each field that differs: its path, what is there, what will be."""
    if isinstance(have, dict) and isinstance(want, dict):
        for key in sorted(have.keys() | want.keys()):
            yield from differences(have.get(key), want.get(key), f"{path}.{key}")
    elif isinstance(have, list) and isinstance(want, list) and len(have) == len(want):
        for number, pair in enumerate(zip(have, want, strict=True)):
            yield from differences(*pair, f"{path}[{number}]")
    elif have != want:
        yield f"{path}: {_short(have)} -> {_short(want)}"


def _short(value: object, most: int = 120) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= most else f"{text[:most]}..."
