"""The objects of a run are removed at its end, and those of runs that were killed; of none that is under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from tests.prove.hosts import build_plan
from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.jobs.requirements import build_requirements
from trackbed.cluster.proof.objects import PROOF, ProofSite
from trackbed.cluster.proof.removal import list_left_behind, remove_run
from trackbed.cluster.proof.run import _PodWorkers
from trackbed.cluster.stacks import load_stack

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
LONG_AGO = "2020-01-01T00:00:00Z"
EARLY, LATE = "2026-11-30T10:59:59Z", "2026-11-30T11:00:01Z"
KINDS = {"pods": "Pod", "configmaps": "ConfigMap"}


def build(run: str, phase: str = "", *, created: str = EARLY, written: str = EARLY) -> dict[str, Any]:
    """Return an object of a run; one with a phase is a pod."""
    times = {"creationTimestamp": created, "managedFields": [{"time": written}, {}]}
    return {"kind": "Pod" if phase else "ConfigMap", "metadata": {"labels": {PROOF: run}, **times}} | (
        {"status": {"phase": phase}} if phase else {}
    )


@dataclass
class Objects:
    """An API server with the objects of proofs."""

    objects: list[dict[str, Any]]
    refuses_lists: bool = False
    deleted: list[tuple[str, str]] = field(default_factory=list)

    @property
    def client(self) -> Objects:
        """The client of paths."""
        return self

    async def iter_objects(self, _: str, kind: str, __: str, *, selector: str) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the objects of a kind."""
        if self.refuses_lists:
            raise KubeError("the API server is overloaded (429)")
        assert selector == PROOF
        for body in [body for body in self.objects if body["kind"] == kind]:
            yield body

    async def delete_all(self, path: str, selector: str) -> None:
        """Delete the objects of a run."""
        plural, run = path.rpartition("/")[2], selector.removeprefix(f"{PROOF}=")
        self.deleted.append((plural, run))
        self.objects = [
            body
            for body in self.objects
            if (body["kind"], body["metadata"]["labels"][PROOF]) != (KINDS.get(plural), run)
        ]


def as_client(objects: Objects) -> DynamicClient:
    return cast("DynamicClient", objects)


@pytest.mark.parametrize(
    ("objects", "is_left"),
    [
        pytest.param([build("killed"), build("killed", "Failed")], True, id="its pods have ended"),
        pytest.param([build("killed"), build("killed", "Failed"), build("killed", "Running")], False, id="one runs"),
        pytest.param([build("killed")], True, id="no pods"),
        pytest.param([build("killed"), build("killed", created=LATE, written=LATE)], False, id="just begun"),
        pytest.param([build("killed", written=LATE)], False, id="a sheet was written"),
    ],
)
def test_runs_without_a_pod_that_runs_are_left_behind(objects: list[dict[str, Any]], *, is_left: bool) -> None:
    names = asyncio.run(list_left_behind(as_client(Objects(objects)), "jobs", NOW))
    assert names == (["killed"] if is_left else [])


def test_the_objects_by_which_a_run_is_known_are_deleted_last() -> None:
    objects = Objects([])
    asyncio.run(remove_run(as_client(objects), "jobs", "mine"))
    assert [plural for plural, _ in objects.deleted] == [
        "pods",
        "rolebindings",
        "roles",
        "serviceaccounts",
        "configmaps",
    ]


def remove(objects: Objects) -> list[str]:
    """Return what the end of run `mine` reports."""
    plan = build_plan(2)
    requirements = build_requirements(load_stack("network-operator-macvlan"), plan)
    reports: list[str] = []

    async def run() -> None:
        site = ProofSite("mine", "jobs", "x", requirements, 600, b"secret", plan.common)
        await _PodWorkers(as_client(objects), site, ["n1"], reports.append).remove()

    asyncio.run(run())
    return reports


def test_a_run_removes_itself_first_whether_or_not_others_can_be_listed() -> None:
    objects = Objects([build("mine"), build("mine", "Running")], refuses_lists=True)
    assert remove(objects) == [
        "what earlier proofs left is not removed: the API server is overloaded (429); the next proof tries it again"
    ]
    assert objects.objects == []


def test_the_end_of_a_run_removes_those_that_were_killed() -> None:
    killed = build("killed", created=LONG_AGO, written=LONG_AGO)
    objects = Objects([build("mine", "Running"), killed, build("other"), build("other", "Running")])
    assert remove(objects) == []
    assert [(body["kind"], body["metadata"]["labels"][PROOF]) for body in objects.objects] == [
        ("ConfigMap", "other"),
        ("Pod", "other"),
    ]
