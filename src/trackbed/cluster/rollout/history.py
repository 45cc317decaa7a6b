"""Records of runs: a set's objects before its last run, stored in the cluster for an undo.

A record is one ControllerRevision (apps/v1) in the set's namespace: its data never changes, and its number counts the
runs that changed something. It holds each object with the fields that our field manager had applied; of an object that
was no member of the set only our fields, so that an undo hands it back to its owner.

    begun     written before the first change. After an interrupted run the next one writes no other record, so an
              undo restores the last complete state
    done      the run finished; the next run that changes something replaces the record
    undone    the undo finished; repeating it changes nothing

Namespaces and CRDs are never members and are left alone. So are charts, whose history helm keeps.
"""

from __future__ import annotations

import base64
import lzma
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from http import HTTPStatus

import msgspec

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import ApiRefusedError, KubeError, UnknownKindError
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout.applyset import ApplySet, find_live, list_members, locate
from trackbed.cluster.rollout.options import RunOptions, is_shared
from trackbed.cluster.rollout.owned import mask, merge, select_owned
from trackbed.cluster.stacks.size import ETCD_BYTES

BEGUN, DONE, UNDONE = "begun", "done", "undone"
_API, _KIND = "apps/v1", "ControllerRevision"
_SET, _RUN = "trackbed.dev/set", "trackbed.dev/run"
_MOST = ETCD_BYTES - (64 << 10)
"""Bytes of data that fit beside names and managed fields."""
_PRESET = 2
"""Of xz: quick. At 6, pools and rules of 12,500 nodes with 8 rails (7.5 MB) were 0.16 MB; at 2 nobody measured."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The objects of a set before a run."""

    revision: int
    run: str
    """Progress of the run: BEGUN, DONE, UNDONE."""
    packed: str
    """The objects; empty where they were too large."""

    def unpack_objects(self) -> tuple[Object, ...]:
        """The objects, oldest first. Raises KubeError where they cannot be read, or were too large to be kept."""
        if not self.packed:
            raise KubeError(
                "what was there before the last run was too large to be kept; apply the Fabric it came from"
            )
        try:
            return tuple(msgspec.json.decode(lzma.decompress(base64.b64decode(self.packed)), type=list[Object]))
        except (ValueError, lzma.LZMAError, msgspec.DecodeError) as error:
            raise KubeError(f"the record of revision {self.revision} cannot be read: {error}") from error


async def pack_objects(
    client: DynamicClient, applyset: ApplySet, options: RunOptions, objects: Iterable[Object]
) -> str:
    """Return the members of a set, and the live state of `objects`, packed. Raises KubeError."""
    members = sorted([member async for member in list_members(client, applyset)], key=_read_age)
    live_objects = {locate(member): member for member in members}
    packed = {key: select_owned(member, options.manager) for key, member in live_objects.items()}
    for body in objects:
        key = locate(body)
        live = live_objects.get(key) or await _find_served(client, body)
        if live is None or is_shared(body["kind"]):
            continue
        fields = packed.get(key) or select_owned(live, options.manager)
        packed[key] = merge(fields, mask(live, body)) if options.force else fields
    raw = msgspec.json.encode(list(packed.values()))
    return base64.b64encode(lzma.compress(raw, preset=_PRESET)).decode()


def is_storable(packed: str) -> bool:
    """Return whether the record fits into etcd."""
    return len(packed) <= _MOST


async def save_record(client: DynamicClient, applyset: ApplySet, options: RunOptions, packed: str) -> None:
    """Write the record of a run, unless an interrupted run has left one. Raises KubeError."""
    last = await read_latest(client, applyset)
    if last is not None and last.run == BEGUN:
        return
    revision = last.revision + 1 if last else 1
    metadata = _metadata(applyset, revision, BEGUN) | {"labels": {_SET: applyset.id}}
    data = {"packed": packed if is_storable(packed) else ""}
    body = {"apiVersion": _API, "kind": _KIND, "metadata": metadata, "revision": revision, "data": data}
    await _create(client, options, body)
    async for record in _list_records(client, applyset):
        if record["revision"] != revision:
            await client.delete(record)


async def read_latest(client: DynamicClient, applyset: ApplySet) -> RunRecord | None:
    """Return the newest record; None where there is none."""
    records = [record async for record in _list_records(client, applyset)]
    newest = max(records, key=lambda record: int(record["revision"]), default=None)
    if newest is None:
        return None
    run = newest["metadata"].get("annotations", {}).get(_RUN, BEGUN)
    return RunRecord(newest["revision"], run, (newest.get("data") or {}).get("packed", ""))


async def mark_run(client: DynamicClient, applyset: ApplySet, run: str) -> None:
    """Write the progress of a run into the newest record; a finished run is final until another begins."""
    last = await read_latest(client, applyset)
    if last is not None and last.run != run and BEGUN in {last.run, run}:
        body = {"apiVersion": _API, "kind": _KIND, "metadata": _metadata(applyset, last.revision, run)}
        await client.apply(body, manager="trackbed-history", force=True)


async def delete_records(client: DynamicClient, applyset: ApplySet) -> None:
    """Delete all records of a set."""
    async for record in _list_records(client, applyset):
        await client.delete(record)


def _list_records(client: DynamicClient, applyset: ApplySet) -> AsyncIterator[Object]:
    return client.list(_API, _KIND, applyset.namespace, selector=f"{_SET}={applyset.id}")


def _metadata(applyset: ApplySet, revision: int, run: str) -> Object:
    name = f"{applyset.name}-{revision}"
    return {"name": name, "namespace": applyset.namespace, "annotations": {_RUN: run}}


def _read_age(body: Object) -> str:
    return str(body["metadata"].get("creationTimestamp", ""))


async def _find_served(client: DynamicClient, body: Object) -> Object | None:
    try:
        return await find_live(client, body)
    except UnknownKindError:
        return None


async def _create(client: DynamicClient, options: RunOptions, body: Object) -> None:
    """Create the record; first its namespace, which the run would create, where it does not exist yet."""
    try:
        await client.create(body)
    except ApiRefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": body["metadata"]["namespace"]}}
        await client.apply(namespace, manager=options.manager)
        await client.create(body)
