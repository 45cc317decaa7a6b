"""Rights to apply a stack, against a real API server that knows every kind."""

from __future__ import annotations

import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient

from tests.cluster.stacks.sites import alike, planned
from trackbed.cluster.stacks import MODULES, load_stack
from trackbed.cluster.stacks.rights import build_cluster_role, build_cluster_role_rules, to_plural

OWN = [name for name in MODULES if load_stack(name).has_objects and name != "native"]


SERVED = [name for name in OWN if name != "openshift"]
"""OpenShift's own NodeFeatureRule comes with its operator alone."""


@pytest.mark.parametrize("name", SERVED)
def test_every_kind_of_a_role_is_one_that_a_server_serves_under_that_name(cluster: BlockingClient, name: str) -> None:
    for rule in build_cluster_role_rules(load_stack(name), planned(name, alike(2, 2), 2)):
        (group,) = rule["apiGroups"]
        for resource in rule["resources"]:
            assert cluster.find_kind(f"{resource}.{group}" if group else resource).plural == resource


def test_what_is_waited_for_is_read_and_what_is_applied_is_written() -> None:
    rules = build_cluster_role_rules(load_stack("sriov-operator"), planned("sriov-operator", alike(2, 2), 2))
    manifests = [
        (rule["resources"], rule["verbs"]) for rule in rules if rule["apiGroups"] == ["sriovnetwork.openshift.io"]
    ]
    written = ["sriovnetworknodepolicies", "sriovnetworkpoolconfigs", "sriovnetworks", "sriovoperatorconfigs"]
    assert manifests == [
        (written, ["get", "list", "create", "patch", "delete"]),
        (["sriovnetworknodestates"], ["get", "list"]),
    ]


def test_namespaces_are_never_to_be_deleted() -> None:
    rules = build_cluster_role_rules(load_stack("openshift"), planned("openshift", alike(2, 2), 2))
    (verbs,) = [rule["verbs"] for rule in rules if "namespaces" in rule["resources"]]
    assert verbs == ["get", "list", "create", "patch"]


def test_a_role_is_bound_to_the_account() -> None:
    _, binding = build_cluster_role(
        load_stack("sriov-operator"), planned("sriov-operator", alike(2, 2), 2), "there:who"
    )
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "who", "namespace": "there"}]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("IPPool", "ippools"),
        ("NicClusterPolicy", "nicclusterpolicies"),
        ("DeviceClass", "deviceclasses"),
        ("DeviceAttributes", "deviceattributes"),
    ],
)
def test_a_kind_as_paths_have_it(kind: str, name: str) -> None:
    assert to_plural(kind) == name
