"""A real API server takes every object of every stack, strictly and without a warning; spoiled ones it refuses."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient

from tests.api_server import accepted, refused, with_unknown_field, with_wrong_type
from tests.cluster.stacks.sites import NO_DUAL, SHAPES, alike, planned
from trackbed.cluster.api.response import Object
from trackbed.cluster.stacks import MODULES, load_stack
from trackbed.cluster.stacks.nfd import build_node_feature_rules
from trackbed.cluster.stacks.objects import Manifest
from trackbed.cluster.stacks.size import MAX_REQUEST_BYTES
from trackbed.cluster.stacks.stack import iter_objects
from trackbed.fabric.plan.plan import Plan

CASES = [(name, shape) for name in MODULES for shape in SHAPES if not (SHAPES[shape][2] and name in NO_DUAL)]
WITHOUT_OBJECTS = {"bare-metal", "kvm", "aws-efa", "azure", "gke", "oci"}
"""Ways that put nothing into a cluster: files, or what a cloud has there already."""


def rendered(name: str, plan: Plan) -> list[Manifest]:
    """A stack's objects and the rule that labels its nodes."""
    assert list(load_stack(name).refusals(plan)) == []
    return [*iter_objects(load_stack(name), plan), *build_node_feature_rules(plan)]


@pytest.mark.parametrize(("name", "shape"), CASES, ids=[f"{name}, {shape}" for name, shape in CASES])
def test_every_object_is_created_strictly_and_without_a_warning(cluster: BlockingClient, name: str, shape: str) -> None:
    nodes, rails, dual = SHAPES[shape]
    assert accepted(cluster, rendered(name, planned(name, nodes, rails, dual=dual))) == []


@pytest.mark.parametrize("name", sorted(set(MODULES) - WITHOUT_OBJECTS))
@pytest.mark.parametrize("spoil", [with_unknown_field, with_wrong_type])
def test_an_object_of_each_kind_is_refused_once_it_is_spoiled(
    cluster: BlockingClient, name: str, spoil: Callable[[Object], Object]
) -> None:
    one_of_each = {manifest["kind"]: manifest for manifest in rendered(name, planned(name, alike(2, 2), 2))}
    spoiled = [spoil(item) for item in one_of_each.values()]
    assert [manifest["kind"] for manifest in spoiled if not refused(cluster, manifest)] == []


def test_every_stack_has_its_site() -> None:
    assert {
        name for name in MODULES if not list(iter_objects(load_stack(name), planned(name, alike(2, 2), 2)))
    } == WITHOUT_OBJECTS


def test_a_pool_over_the_limit_is_refused_by_etcd_and_one_below_it_is_not(cluster: BlockingClient) -> None:
    """Where `stacks.size` draws the line, etcd does: without it a site would learn of it when its controller writes."""
    plan = planned("network-operator-hostdevice", alike(2, 2), 2)
    pool = next(
        manifest
        for manifest in iter_objects(load_stack("network-operator-hostdevice"), plan)
        if manifest["kind"] == "CIDRPool"
    )
    entry = len(msgspec.json.encode(pool["spec"]["staticAllocations"][0])) + 1
    for share, sound in ((0.97, True), (1.03, False)):
        entries = [
            {"gateway": "172.16.0.1", "nodeName": "gpu-0", "prefix": "172.16.0.0/31"}
            for _ in range(int(MAX_REQUEST_BYTES * share) // entry)
        ]
        sized = {**pool, "spec": {**pool["spec"], "staticAllocations": entries}}
        assert (accepted(cluster, [sized]) == []) is sound
