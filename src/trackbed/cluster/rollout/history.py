"""What a set's objects were before its last run, kept in the cluster for the way back.

One ControllerRevision (apps/v1) in the set's namespace: its data never changes, and its number counts the runs that
changed something. It holds each object with the fields that our field manager had applied; of an object that was no
member of the set just what we had of it, so that the way back hands it to its owner again.

    begun     written before the first change. A run that breaks off leaves it so, and the next one writes no other:
              the way back leads to the last state that was whole
    done      the run came to its end; the next run that changes something replaces the record
    undone    the way back came to its end; going it again finds nothing to do

Namespaces and CRDs are never members: they stay as they are. So do charts, which helm keeps by itself.
"""

from __future__ import annotations

import base64
import lzma
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from trackbed.cluster.api.answer import Object
from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import KubeError, RefusedError, UnknownKindError
from trackbed.cluster.rollout import applyset
from trackbed.cluster.rollout.applyset import ApplySet
from trackbed.cluster.rollout.owned import masked, merged, owned
from trackbed.cluster.rollout.rollout import Manner, kept
from trackbed.cluster.stacks.size import ETCD_BYTES

BEGUN, DONE, UNDONE = "begun", "done", "undone"
_API, _KIND = "apps/v1", "ControllerRevision"
_SET, _RUN = "trackbed.dev/set", "trackbed.dev/run"
_MOST = ETCD_BYTES - (64 << 10)
"""Bytes of data that fit beside names and managed fields."""
_PRESET = 2
"""Of xz: quick. At 6, pools and rules of 12,500 nodes with 8 rails (7.5 MB) were 0.16 MB; at 2 nobody measured."""
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class Record:
    """What was there before a run."""

    revision: int
    run: str
    """How far the run came: BEGUN, DONE, UNDONE."""
    packed: str
    """The objects; empty where they were too large."""

    def objects(self) -> tuple[Object, ...]:
        """The objects, oldest first. Raises KubeError where they cannot be read, or were too large to be kept."""
        if not self.packed:
            raise KubeError(
                "what was there before the last run was too large to be kept; apply the Fabric it came from"
            )
        try:
            return tuple(msgspec.json.decode(lzma.decompress(base64.b64decode(self.packed)), type=list[Object]))
        except (ValueError, lzma.LZMAError, msgspec.DecodeError) as error:
            raise KubeError(f"the record of revision {self.revision} cannot be read: {error}") from error


def before(client: Client, of: ApplySet, manner: Manner, wanted: Iterable[Object]) -> str:
    """What is there now of a set, and of what is wanted, packed. Raises KubeError."""
    members = sorted(applyset.members(client, of), key=_age)
    places = {applyset.place(one): one for one in members}
    found = {place: owned(one, manner.manager) for place, one in places.items()}
    for one in wanted:
        place = applyset.place(one)
        live = places.get(place) or _live(client, one)
        if live is None or kept(one["kind"]):
            continue
        own = found.get(place) or owned(live, manner.manager)
        found[place] = merged(own, masked(live, one)) if manner.force else own
    raw = msgspec.json.encode(list(found.values()))
    return base64.b64encode(lzma.compress(raw, preset=_PRESET)).decode()


def fits(packed: str) -> bool:
    """Whether etcd takes it."""
    return len(packed) <= _MOST


def keep(client: Client, of: ApplySet, manner: Manner, packed: str) -> None:
    """Write down what was there before a run, unless one that broke off has done so. Raises KubeError."""
    last = latest(client, of)
    if last is not None and last.run == BEGUN:
        return
    revision = last.revision + 1 if last else 1
    labels = {_SET: of.id}
    metadata = {"name": f"{of.name}-{revision}", "namespace": of.namespace, "labels": labels}
    data = {"packed": packed if fits(packed) else ""}
    one = {"apiVersion": _API, "kind": _KIND, "metadata": {**metadata, "annotations": {_RUN: BEGUN}}}
    _create(client, manner, {**one, "revision": revision, "data": data})
    for older in _records(client, of):
        if older["revision"] != revision:
            client.delete(older)


def latest(client: Client, of: ApplySet) -> Record | None:
    """The newest record; None where there is none."""
    found = max(_records(client, of), key=lambda one: int(one["revision"]), default=None)
    if found is None:
        return None
    run = found["metadata"].get("annotations", {}).get(_RUN, BEGUN)
    return Record(found["revision"], run, (found.get("data") or {}).get("packed", ""))


def mark(client: Client, of: ApplySet, run: str) -> None:
    """Say of the newest record how far its run came; what was ended stays so until a run begins."""
    last = latest(client, of)
    if last is not None and last.run != run and BEGUN in {last.run, run}:
        metadata = {"name": f"{of.name}-{last.revision}", "namespace": of.namespace, "annotations": {_RUN: run}}
        client.apply({"apiVersion": _API, "kind": _KIND, "metadata": metadata}, manager="trackbed-history", force=True)


def forget(client: Client, of: ApplySet) -> None:
    """Delete all records of a set."""
    for one in _records(client, of):
        client.delete(one)


def _records(client: Client, of: ApplySet) -> Iterator[Object]:
    return client.list(_API, _KIND, of.namespace, selector=f"{_SET}={of.id}")


def _age(one: Object) -> str:
    return str(one["metadata"].get("creationTimestamp", ""))


def _live(client: Client, one: Object) -> Object | None:
    metadata = one["metadata"]
    try:
        return client.find(one["apiVersion"], one["kind"], metadata["name"], metadata.get("namespace"))
    except UnknownKindError:
        return None


def _create(client: Client, manner: Manner, one: Object) -> None:
    """Create the record; its namespace first, which the run would make, where it is not there yet."""
    try:
        client.create(one)
    except RefusedError as error:
        if error.status != _NOT_FOUND:
            raise
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": one["metadata"]["namespace"]}}
        client.apply(namespace, manager=manner.manager)
        client.create(one)
