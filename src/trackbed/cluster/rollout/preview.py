"""Preview of a run by dry runs on the server, so that its defaults and admission are included."""

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import ApiRefusedError, UnknownKindError
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout.applyset import ApplySet, ObjectKey, find_live_object, iter_members, to_object_key
from trackbed.cluster.rollout.lost_pools import SECTION, describe_lost_pools, describe_pools_of_others, drops_nv_ipam
from trackbed.cluster.rollout.membership import MembershipCheck
from trackbed.cluster.rollout.options import REFUSED, ObjectChange, RunOptions, format_object_name
from trackbed.cluster.rollout.other_installation import describe_other_installation
from trackbed.cluster.stacks.install.steps import ApplyFile, InstallChart, Step

BY_HELM = "by helm, installed or upgraded"
"""Outcome for a chart, whose differences only helm knows."""

_SERVER_FIELDS = frozenset({"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"})
"""Fields of an object's metadata that only the server writes."""


async def iter_preview(
    client: DynamicClient, applyset: ApplySet, options: RunOptions, steps: Iterable[Step]
) -> AsyncIterator[ObjectChange]:
    """Yield the outcome of a run for each chart and object, then for each stale member. Raises KubeError."""
    preview = _Preview(client, applyset, MembershipCheck(client, applyset))
    applied = set()
    for step in steps:
        if isinstance(step, InstallChart) and options.install is not None:
            yield ObjectChange(f"chart {step.release_name} {step.version}", BY_HELM)
        if not isinstance(step, ApplyFile):
            continue
        if await describe_other_installation(client, step):
            applied |= {to_object_key(body) for body in step.objects}
            continue
        for body in step.objects:
            change, key = await preview.compare(body, options.adapt_to_step(step))
            applied.add(key)
            yield change
    stale = [member async for member in iter_members(client, applyset) if to_object_key(member) not in applied]
    loss = await describe_lost_pools(client, applyset, stale)
    for member in stale:
        fields = (loss,) if loss and member["kind"] == "NicClusterPolicy" else ()
        yield ObjectChange(format_object_name(member), "removed", fields)


@dataclass(frozen=True, slots=True)
class _Preview:
    """Comparison of wanted objects with those of a cluster."""

    client: DynamicClient
    applyset: ApplySet
    membership: MembershipCheck

    async def compare(self, body: Object, options: RunOptions) -> tuple[ObjectChange, ObjectKey]:
        """Return the outcome of a run for one object, and its key with the namespace that the server chose."""
        name, key = format_object_name(body), to_object_key(body)
        try:
            live = await find_live_object(self.client, body)
            if owner := await self.membership.describe_owner(live):
                return ObjectChange(name, REFUSED, (owner,)), key
            labelled = options.add_label(self.applyset, body)
            response = await self.client.apply(labelled, manager=options.manager, force=options.force, dry_run=True)
        except UnknownKindError:
            return ObjectChange(name, "created, once its kind is there"), key
        except ApiRefusedError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return ObjectChange(name, "created, once its namespace is there"), key
            if error.status != HTTPStatus.CONFLICT:
                raise
            return ObjectChange(name, "conflict", (error.message,)), key
        return await self._compare_response(live, response.body), to_object_key(response.body)

    async def _compare_response(self, live: Object | None, updated: Object) -> ObjectChange:
        """Return the outcome of a dry run whose result is `updated`."""
        name = format_object_name(updated)
        if live is None:
            return ObjectChange(name, "created")
        fields = tuple(iter_differences(_drop_server_fields(live), _drop_server_fields(updated)))
        if drops_nv_ipam(live, updated):
            loss = await describe_pools_of_others(self.client, self.applyset, SECTION)
            fields = (*((loss,) if loss else ()), *fields)
        return ObjectChange(name, "changed" if fields else "same", fields)


def _drop_server_fields(body: Object) -> Object:
    metadata = {key: value for key, value in body["metadata"].items() if key not in _SERVER_FIELDS}
    return {**{key: value for key, value in body.items() if key != "status"}, "metadata": metadata}


def iter_differences(current: Any, desired: Any, path: str = "") -> Iterator[str]:  # noqa: ANN401 - any part of an object
    """Yield a line for each field that differs: its path, current and desired value."""
    if isinstance(current, dict) and isinstance(desired, dict):
        for key in sorted(current.keys() | desired.keys()):
            yield from iter_differences(current.get(key), desired.get(key), f"{path}.{key}")
    elif isinstance(current, list) and isinstance(desired, list) and len(current) == len(desired):
        for index, pair in enumerate(zip(current, desired, strict=True)):
            yield from iter_differences(*pair, f"{path}[{index}]")
    elif current != desired:
        yield f"{path}: {_shorten(current)} -> {_shorten(desired)}"


def _shorten(value: object, limit: int = 120) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= limit else f"{text[:limit]}..."
