"""A pod gets the rails it asks for and no other, on every stack."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.cluster.stacks.sites import SITES, alike, planned
from trackbed.cluster.jobs.requirements import build_requirements
from trackbed.cluster.stacks import stack
from trackbed.cluster.stacks.stack import objects

RAILS = 8
SOME = (1, 3, 4)
COUNTED = {"aws-efa", "azure", "oci"}
"""Stacks whose rails are one resource, counted."""
NO_RAILS = {"bare-metal", "kvm", "nic-configuration"}


def rails_of(name: str, rails: tuple[int, ...] | None) -> list[tuple[str, Any]]:
    """All that a pod carries for rails, each with its kind."""
    access = build_requirements(stack(name), planned(name, alike(4, RAILS), RAILS), rails).access
    found = [("network", one) for one in access.networks] + [("hca", one) for one in access.hcas]
    annotations = dict(access.annotations)
    gke = msgspec.json.decode(annotations.get("networking.gke.io/interfaces", "[]"))
    return found + [("resource", one) for one in access.resources] + [("interface", one) for one in gke]


@pytest.mark.parametrize("name", sorted(set(SITES) - NO_RAILS - COUNTED - {"dranet", "dra-sriov"}))
def test_a_pod_carries_what_belongs_to_its_rails(name: str) -> None:
    whole = rails_of(name, None)
    each = [rails_of(name, (rail,)) for rail in range(RAILS)]
    shared = [one for one in whole if all(one in rail for rail in each)]
    expected = [one for one in whole if one in shared or any(one in each[rail] for rail in SOME)]
    assert rails_of(name, SOME) == expected
    assert len(shared) < len(expected) < len(whole)


@pytest.mark.parametrize("name", sorted(COUNTED))
def test_rails_that_are_counted_together_are_fewer(name: str) -> None:
    [(_, (resource, count))] = [one for one in rails_of(name, SOME) if one[0] == "resource"]
    assert (("resource", (resource, RAILS)) in rails_of(name, None), count) == (True, len(SOME))


@pytest.mark.parametrize("name", ["dranet", "dra-sriov"])
def test_each_claim_of_some_rails_has_a_template_of_that_rail_alone(name: str) -> None:
    plan = planned(name, alike(4, RAILS), RAILS)
    claims = build_requirements(stack(name), plan, SOME).access.claims
    made = {
        one["metadata"]["name"]: one["spec"]["spec"]["devices"]
        for one in objects(stack(name), plan)
        if one["kind"] == "ResourceClaimTemplate"
    }
    assert [claim.name for claim in claims] == ["rail1", "rail3", "rail4"]
    for claim in claims:
        devices = made[claim.template]
        assert [request["name"] for request in devices["requests"]] == [claim.name]
        assert all(one.get("requests", [claim.name]) == [claim.name] for one in devices["config"])


def test_bootstrap_keeps_off_the_rails_that_the_pod_has_not() -> None:
    one, plan = stack("native"), planned("native", alike(4, 2), 2)
    on_host = msgspec.structs.replace(one.access(plan), host_network=True)

    assert dict(build_requirements(replace(one, access=lambda _: on_host), plan, (0,)).variables)[
        "NCCL_SOCKET_IFNAME"
    ] == ("^=lo,docker0,rail0,rail1")
