"""Records of runs: a set's objects before its last run, stored in the cluster for an undo.

A record is one ControllerRevision (apps/v1) in the set's namespace. Its data never changes, and its revision counts the
runs that changed an object. For each object it holds the fields that our field manager had applied. So an undo returns
an object that was not a member of the set to its owner.

    begun     written before the first change; the run after an interrupted one keeps the record, so that an undo
              restores the last complete state
    done      the run finished; the next run that changes an object replaces the record
    undone    the undo finished; repeating it changes nothing

An undo leaves namespaces and CRDs alone, which are never members, and charts, whose history helm has.
"""

import base64
import lzma
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from http import HTTPStatus

import msgspec

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import ApiRefusedError, KubeError, UnknownKindError
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout.applyset import ApplySet, find_live_object, iter_members, to_object_key
from trackbed.cluster.rollout.options import RunOptions, is_shared_kind
from trackbed.cluster.rollout.owned import mask_fields, merge_fields, select_owned_fields
from trackbed.cluster.stacks.size import MAX_REQUEST_BYTES

BEGUN, DONE, UNDONE = "begun", "done", "undone"
_API, _KIND = "apps/v1", "ControllerRevision"
_SET, _RUN = "trackbed.dev/set", "trackbed.dev/run"
_MAX_PACKED_BYTES = MAX_REQUEST_BYTES - (64 << 10)
"""Largest size of packed objects in a record; names and managed fields need the rest."""
_MAX_UNPACKED_BYTES = 64 << 20
"""Limit of a record's objects; those of 12,500 nodes have 7.5 MB. A record of somebody else may unpack to any size."""
_MAX_DECODER_BYTES = 64 << 20
"""Limit of what xz may keep for its dictionary; preset 2 needs 3 MiB."""
_PRESET = 2
"""Preset of xz: a fast one. At preset 6, pools and rules of 12,500 nodes with 8 rails (7.5 MB) take 0.16 MB."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The objects of a set before a run."""

    revision: int
    state: str
    """State of the run: BEGUN, DONE or UNDONE."""
    packed: str
    """The packed objects (JSON, xz, base64); empty if they were too large."""

    def unpack_objects(self) -> tuple[Object, ...]:
        """Return the objects, oldest first. Raises KubeError if they are malformed, or were too large to be kept."""
        if not self.packed:
            raise KubeError(
                "what was there before the last run was too large to be kept; apply the Fabric it came from"
            )
        try:
            return tuple(msgspec.json.decode(_decompress(base64.b64decode(self.packed)), type=list[Object]))
        except (ValueError, lzma.LZMAError, msgspec.DecodeError) as error:
            raise KubeError(f"the record of revision {self.revision} cannot be read: {error}") from error


def _decompress(packed: bytes) -> bytes:
    """Return the content of xz data. Raises ValueError beyond the limit, before it is in memory, lzma.LZMAError."""
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAX_DECODER_BYTES)
    content = decompressor.decompress(packed, max_length=_MAX_UNPACKED_BYTES)
    if not decompressor.eof:
        raise ValueError(f"it is cut off, or unpacks to more than {_MAX_UNPACKED_BYTES >> 20} MiB")
    return content


async def pack_objects(
    client: DynamicClient, applyset: ApplySet, manager: str, objects: Iterable[tuple[Object, RunOptions]]
) -> str:
    """Return the members of a set and the current state of `objects`, packed for a record. Raises KubeError.

    Each object has the options by which it is applied: with `force` the fields of other managers are kept, too.
    """
    members = [member async for member in iter_members(client, applyset)]
    members.sort(key=lambda member: str(member["metadata"].get("creationTimestamp", "")))
    live_objects = {to_object_key(member): member for member in members}
    packed = {key: select_owned_fields(member, manager) for key, member in live_objects.items()}
    for body, options in objects:
        key = to_object_key(body)
        live = live_objects.get(key) or await _find_live_if_served(client, body)
        if live is None or is_shared_kind(body["kind"]):
            continue
        fields = packed.get(key) or select_owned_fields(live, manager)
        packed[key] = merge_fields(fields, mask_fields(live, body)) if options.force else fields
    raw = msgspec.json.encode(list(packed.values()))
    return base64.b64encode(lzma.compress(raw, preset=_PRESET)).decode()


def is_record_storable(packed: str) -> bool:
    """Return whether packed objects fit into one object of etcd."""
    return len(packed) <= _MAX_PACKED_BYTES


async def save_record(client: DynamicClient, applyset: ApplySet, options: RunOptions, packed: str) -> None:
    """Write the record of a run, and delete older records. Raises KubeError.

    If the last run was interrupted, keep its record instead.
    """
    last = await read_latest_record(client, applyset)
    if last is not None and last.state == BEGUN:
        return
    revision = last.revision + 1 if last else 1
    metadata = _build_metadata(applyset, revision, BEGUN) | {"labels": {_SET: applyset.id}}
    data = {"packed": packed if is_record_storable(packed) else ""}
    body = {"apiVersion": _API, "kind": _KIND, "metadata": metadata, "revision": revision, "data": data}
    await _create_record(client, options, body)
    async for record in _iter_records(client, applyset):
        if record["revision"] != revision:
            await client.delete(record)


async def read_latest_record(client: DynamicClient, applyset: ApplySet) -> RunRecord | None:
    """Return the newest record of a set; None if there is none. Raises KubeError."""
    records = [record async for record in _iter_records(client, applyset)]
    newest = max(records, key=lambda record: int(record["revision"]), default=None)
    if newest is None:
        return None
    run = newest["metadata"].get("annotations", {}).get(_RUN, BEGUN)
    return RunRecord(newest["revision"], run, (newest.get("data") or {}).get("packed", ""))


async def set_run_state(client: DynamicClient, applyset: ApplySet, state: str) -> None:
    """Set the state of the newest record of a set. Raises KubeError.

    A record that is DONE or UNDONE is only set to BEGUN.
    """
    last = await read_latest_record(client, applyset)
    if last is not None and last.state != state and BEGUN in {last.state, state}:
        body = {"apiVersion": _API, "kind": _KIND, "metadata": _build_metadata(applyset, last.revision, state)}
        await client.apply(body, manager="trackbed-history", force=True)


async def delete_records(client: DynamicClient, applyset: ApplySet) -> None:
    """Delete all records of a set. Raises KubeError."""
    async for record in _iter_records(client, applyset):
        await client.delete(record)


def _iter_records(client: DynamicClient, applyset: ApplySet) -> AsyncIterator[Object]:
    return client.iter_objects(_API, _KIND, applyset.namespace, selector=f"{_SET}={applyset.id}")


def _build_metadata(applyset: ApplySet, revision: int, state: str) -> Object:
    name = f"{applyset.name}-{revision}"
    return {"name": name, "namespace": applyset.namespace, "annotations": {_RUN: state}}


async def _find_live_if_served(client: DynamicClient, body: Object) -> Object | None:
    """Return an object as it is in the cluster; None if it does not exist, or the server does not serve its kind."""
    try:
        return await find_live_object(client, body)
    except UnknownKindError:
        return None


async def _create_record(client: DynamicClient, options: RunOptions, body: Object) -> None:
    """Create a record, and its namespace if that does not exist, since the run creates it only later."""
    try:
        await client.create(body)
    except ApiRefusedError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": body["metadata"]["namespace"]}}
        await client.apply(namespace, manager=options.manager)
        await client.create(body)
