"""A pod gets the rails it asks for and no other, on every stack."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.cluster.stacks.sites import SITES, alike, planned
from trackbed.cluster.jobs.inject import inject_rails
from trackbed.cluster.jobs.requirements import build_requirements
from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.stack import iter_objects

RAILS = 8
SOME = (1, 3, 4)
COUNTED = {"aws-efa", "azure", "oci"}
"""Stacks whose rails are one resource, counted."""
NO_RAILS = {"bare-metal", "kvm", "nic-configuration"}


def rails_of(name: str, rails: tuple[int, ...] | None) -> list[tuple[str, Any]]:
    """All that a pod carries for rails, each with its kind."""
    access = build_requirements(load_stack(name), planned(name, alike(4, RAILS), RAILS), rails).access
    parts: list[tuple[str, Any]] = [("network", network) for network in access.networks]
    parts += [("hca", hca) for hca in access.hcas]
    annotations = dict(access.annotations)
    gke = msgspec.json.decode(annotations.get("networking.gke.io/interfaces", "[]"))
    parts += [("resource", resource) for resource in access.resources]
    return parts + [("interface", interface) for interface in gke]


@pytest.mark.parametrize("name", sorted(set(SITES) - NO_RAILS - COUNTED - {"dranet", "dra-sriov"}))
def test_a_pod_carries_what_belongs_to_its_rails(name: str) -> None:
    whole = rails_of(name, None)
    each = [rails_of(name, (rail,)) for rail in range(RAILS)]
    shared = [item for item in whole if all(item in rail for rail in each)]
    expected = [item for item in whole if item in shared or any(item in each[rail] for rail in SOME)]
    assert rails_of(name, SOME) == expected
    assert len(shared) < len(expected) < len(whole)


@pytest.mark.parametrize("name", sorted(COUNTED))
def test_rails_that_are_counted_together_are_fewer(name: str) -> None:
    [(_, (resource, count))] = [item for item in rails_of(name, SOME) if item[0] == "resource"]
    assert (("resource", (resource, RAILS)) in rails_of(name, None), count) == (True, len(SOME))


@pytest.mark.parametrize("name", ["dranet", "dra-sriov"])
def test_each_claim_of_some_rails_has_a_template_of_that_rail_alone(name: str) -> None:
    plan = planned(name, alike(4, RAILS), RAILS)
    claims = build_requirements(load_stack(name), plan, SOME).access.claims
    made = {
        manifest["metadata"]["name"]: manifest["spec"]["spec"]["devices"]
        for manifest in iter_objects(load_stack(name), plan)
        if manifest["kind"] == "ResourceClaimTemplate"
    }
    assert [claim.name for claim in claims] == ["rail1", "rail3", "rail4"]
    for claim in claims:
        devices = made[claim.template]
        assert [request["name"] for request in devices["requests"]] == [claim.name]
        assert all(item.get("requests", [claim.name]) == [claim.name] for item in devices["config"])


@pytest.mark.parametrize("name", ["sriov-operator", "network-operator-macvlan", "spiderpool"])
def test_networks_of_rails_that_were_not_chosen_are_told(name: str) -> None:
    plan = planned(name, alike(4, RAILS), RAILS)
    whole = build_requirements(load_stack(name), plan)
    pod: dict[str, Any] = {"spec": {"containers": [{"name": "a"}]}}
    inject_rails(pod, whole)
    notes = inject_rails(pod, build_requirements(load_stack(name), plan, SOME))
    unused = [note for note in notes if note.code == "pod-rails-unused" and "joins network" in note.difference]
    assert len(unused) == RAILS - len(SOME)
    assert inject_rails(pod, whole) == []


def test_bootstrap_keeps_off_the_rails_that_the_pod_has_not() -> None:
    native, plan = load_stack("native"), planned("native", alike(4, 2), 2)
    on_host = msgspec.structs.replace(native.access(plan), host_network=True)

    assert dict(build_requirements(replace(native, access=lambda _: on_host), plan, (0,)).variables)[
        "NCCL_SOCKET_IFNAME"
    ] == ("^=lo,docker0,rail0,rail1")


@pytest.mark.parametrize(
    ("name", "expected"), [("native", True), ("network-operator-macvlan", True), ("spiderpool", False)]
)
def test_only_pods_of_mode_macvlan_share_ports(name: str, expected: bool) -> None:
    assert build_requirements(load_stack(name), planned(name, alike(4, RAILS), RAILS)).shares_ports is expected
