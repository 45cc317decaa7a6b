"""Good generations are those of this Fabric, not of a deleted one of its name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.response import Object
from trackbed.cluster.controller.objects import FabricObject
from trackbed.cluster.controller.revisions import Revisions

OLD, NEW = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
"""When the deleted Fabric was created, and when the other one of its name."""


class RevisionStore(Client):
    """ControllerRevisions, as an API server without garbage collection keeps them."""

    def __init__(self) -> None:
        self.now = OLD
        self.bodies: dict[str, Object] = {}

    async def create(self, path: str, body: Object) -> Object:
        """Store a revision of a new name."""
        name = body["metadata"]["name"]
        if name in self.bodies:
            raise ApiRefusedError(409, "AlreadyExists", "exists", path)
        stamps = {"resourceVersion": "1", "creationTimestamp": self.now}
        self.bodies[name] = {**body, "metadata": {**body["metadata"], **stamps}}
        return self.bodies[name]

    async def iter_objects(self, path: str, model: type[Any], **params: str) -> AsyncIterator[Any]:
        """All revisions, which are of one Fabric's name."""
        del path, params
        for body in list(self.bodies.values()):
            yield msgspec.json.decode(msgspec.json.encode(body), type=model)

    async def delete(self, path: str) -> bool:
        """Remove a revision."""
        return self.bodies.pop(path.rpartition("/")[2], None) is not None

    def drop_owners(self) -> None:
        """Leave the revisions as an earlier version of the controller wrote them."""
        for body in self.bodies.values():
            body["metadata"].pop("ownerReferences", None)


def fabric(generation: int, created: str) -> FabricObject:
    """A Fabric that says in its spec which one and which generation it is."""
    metadata = {"name": "train", "uid": f"uid of {created}", "resourceVersion": "1", "generation": generation}
    body = {"metadata": {**metadata, "creationTimestamp": created}, "spec": {"created": created, "number": generation}}
    return msgspec.json.decode(msgspec.json.encode(body), type=FabricObject)


def save(store: RevisionStore, created: str, *generations: int) -> None:
    async def run() -> None:
        revisions = Revisions(store, "trackbed-system", "train")
        store.now = created
        for generation in generations:
            await revisions.save(fabric(generation, created))

    asyncio.run(run())


def read_before(store: RevisionStore, created: str, generation: int) -> Any:
    """The spec that a rollback of this generation carries out; None if there is none."""
    revisions = Revisions(store, "trackbed-system", "train")
    spec = asyncio.run(revisions.read_spec_before(fabric(generation, created)))
    return None if spec is None else msgspec.json.decode(spec)


@pytest.mark.parametrize("has_owners", [True, False], ids=["of today", "of an earlier controller"])
def test_a_rollback_carries_out_no_generation_of_a_deleted_fabric(has_owners: bool) -> None:
    store = RevisionStore()
    save(store, OLD, 1, 2, 4)
    if not has_owners:
        store.drop_owners()
    assert read_before(store, NEW, 3) is None
    save(store, NEW, 1)
    assert read_before(store, NEW, 3) == {"created": NEW, "number": 1}


@pytest.mark.parametrize("has_owners", [True, False], ids=["of today", "of an earlier controller"])
def test_the_generations_of_a_deleted_fabric_displace_none_of_a_new_one(has_owners: bool) -> None:
    store = RevisionStore()
    save(store, OLD, 5, 6, 7, 8, 9)
    if not has_owners:
        store.drop_owners()
    save(store, NEW, 1, 2)
    assert sorted(store.bodies) == ["train-1", "train-2"]


def test_generations_that_an_earlier_controller_wrote_still_count() -> None:
    store = RevisionStore()
    save(store, OLD, 1, 2)
    store.drop_owners()
    store.now = NEW
    save(store, OLD, 2, 3)
    assert sorted(store.bodies) == ["train-1", "train-2", "train-3"]
    assert read_before(store, OLD, 3) == {"created": OLD, "number": 2}


def test_the_newest_five_are_kept() -> None:
    store = RevisionStore()
    save(store, OLD, *range(1, 12))
    assert sorted(store.bodies, key=lambda name: int(name.removeprefix("train-"))) == [
        f"train-{generation}" for generation in range(7, 12)
    ]


def test_a_revision_is_deleted_with_its_fabric_by_garbage_collection() -> None:
    store = RevisionStore()
    save(store, OLD, 1)
    owner = {"apiVersion": "trackbed.dev/v1alpha1", "kind": "Fabric", "name": "train", "uid": f"uid of {OLD}"}
    assert store.bodies["train-1"]["metadata"]["ownerReferences"] == [{**owner, "controller": True}]
