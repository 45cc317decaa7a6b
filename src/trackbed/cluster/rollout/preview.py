"""What a run would change, by dry runs on the server: with its defaults and its admission."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from http import HTTPStatus
from typing import Any

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import ApiRefusedError, UnknownKindError
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout.applyset import ApplySet, ObjectKey, find_live, list_members, locate
from trackbed.cluster.rollout.options import ObjectChange, RunOptions, name_object
from trackbed.cluster.stacks.install.steps import Apply, Install, Step

BY_HELM = "installed or upgraded by helm"
"""Outcome of a chart: only helm knows the difference."""

_SERVER_FIELDS = frozenset({"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"})
"""Fields of metadata that only the server writes."""


async def preview(
    client: DynamicClient, applyset: ApplySet, options: RunOptions, steps: Iterable[Step]
) -> AsyncIterator[ObjectChange]:
    """Yield the change of each chart and object, stale members last. Raises KubeError."""
    applied = set()
    for step in steps:
        if isinstance(step, Install) and options.install is not None:
            yield ObjectChange(f"chart {step.release} {step.version}", BY_HELM)
        for body in step.objects if isinstance(step, Apply) else ():
            change, key = await _preview_object(client, applyset, options, body)
            applied.add(key)
            yield change
    async for member in list_members(client, applyset):
        if locate(member) not in applied:
            yield ObjectChange(name_object(member), "removed")


async def _preview_object(
    client: DynamicClient, applyset: ApplySet, options: RunOptions, body: Object
) -> tuple[ObjectChange, ObjectKey]:
    labelled = options.label(applyset, body)
    try:
        response = await client.apply(labelled, manager=options.manager, force=options.force, dry_run=True)
    except UnknownKindError:
        return ObjectChange(name_object(body), "created, once its kind is there"), locate(body)
    except ApiRefusedError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return ObjectChange(name_object(body), "created, once its namespace is there"), locate(body)
        if error.status != HTTPStatus.CONFLICT:
            raise
        return ObjectChange(name_object(body), "conflict", (error.message,)), locate(body)
    name, key = name_object(response.body), locate(response.body)
    live = await find_live(client, response.body)
    if live is None:
        return ObjectChange(name, "created"), key
    fields = tuple(list_differences(_drop_server_fields(live), _drop_server_fields(response.body)))
    return ObjectChange(name, "changed" if fields else "same", fields), key


def _drop_server_fields(body: Object) -> Object:
    """Return an object without the fields that only servers and controllers write."""
    metadata = {key: value for key, value in body["metadata"].items() if key not in _SERVER_FIELDS}
    return {**{key: value for key, value in body.items() if key != "status"}, "metadata": metadata}


def list_differences(have: Any, want: Any, path: str = "") -> Iterator[str]:  # noqa: ANN401 - any part of an object
    """Yield a line for each field that differs: its path, old and new value."""
    if isinstance(have, dict) and isinstance(want, dict):
        for key in sorted(have.keys() | want.keys()):
            yield from list_differences(have.get(key), want.get(key), f"{path}.{key}")
    elif isinstance(have, list) and isinstance(want, list) and len(have) == len(want):
        for number, pair in enumerate(zip(have, want, strict=True)):
            yield from list_differences(*pair, f"{path}[{number}]")
    elif have != want:
        yield f"{path}: {_shorten(have)} -> {_shorten(want)}"


def _shorten(value: object, limit: int = 120) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= limit else f"{text[:limit]}..."
