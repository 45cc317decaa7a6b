"""A real API server takes every job of every kind on every stack, strictly and without a warning; spoiled ones not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient

from tests.api_server import accepted, refused, with_unknown_field, with_wrong_type
from tests.cluster.stacks.sites import SITES, alike, planned
from trackbed.cluster.api.response import Object
from trackbed.cluster.jobs.kinds import KINDS, build_job, build_job_parameters
from trackbed.cluster.jobs.kinds.queued import build_queue_objects
from trackbed.cluster.jobs.requirements import PodRequirements, build_requirements
from trackbed.cluster.stacks import load_stack

QUEUELESS = {"daemonset", "trainingruntime", "clustertrainingruntime"}
"""Kinds that wait in no queue."""


def carried(name: str) -> PodRequirements:
    return build_requirements(load_stack(name), planned(name, alike(4, 8), 8))


STACKS = [name for name in SITES if carried(name).has_rails]


def job(kind: str, name: str) -> list[Object]:
    """A job of a kind with all rails of a stack, waiting in a queue where its kind can."""
    plan, requirements = planned(name, alike(4, 8), 8), carried(name)
    queue = None if kind in QUEUELESS else "rails"
    return build_job(
        KINDS[kind],
        requirements,
        build_job_parameters(plan, requirements, "all-reduce", "example.org/nccl:1", 3),
        queue,
    )[0]


@pytest.fixture(scope="module", autouse=True)
def _service_account(cluster: BlockingClient) -> None:
    """Pods need one, and without controllers nobody makes it."""
    cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_job_is_created_strictly_and_without_a_warning(cluster: BlockingClient, kind: str, name: str) -> None:
    assert accepted(cluster, job(kind, name)) == []


@pytest.mark.parametrize("name", STACKS)
def test_the_queue_is_created_too(cluster: BlockingClient, name: str) -> None:
    queue = build_queue_objects(
        planned(name, alike(4, 8), 8), carried(name), "rails", 8, ("topology.kubernetes.io/zone",)
    )
    assert accepted(cluster, queue) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spoil", [with_unknown_field, with_wrong_type])
def test_a_spoiled_job_is_refused(cluster: BlockingClient, kind: str, spoil: Callable[[Object], Object]) -> None:
    spoiled = [spoil(item) for item in job(kind, "network-operator-sriov")]
    assert [manifest["kind"] for manifest in spoiled if not refused(cluster, manifest)] == []
