"""What the comparison of stacks says: figures from the plan, every reason at once, and which stack to take."""

from __future__ import annotations

from typing import Any

import pytest
from trackbed_lab.kubernetes.job import STACK
from trackbed_lab.kubernetes.stacks import STACKS

from tests.cluster.stacks.fabric_of import DIRECT, FLAT, NONE, ROUTED, SHARED, fabric
from tests.cluster.stacks.sites import SITES, alike, planned
from trackbed.cluster.stacks import MODULES, load_stack
from trackbed.cluster.stacks.comparison import ComparedStack, Figures, compare_stack
from trackbed.cluster.stacks.native.attach import MAX_SHARED_PODS
from trackbed.cluster.stacks.recommendation import Recommendation, recommend
from trackbed.fabric.plan.plan import Plan
from trackbed.node.rails.devices import MAX_DEVICES

VFS: dict[str, Any] = {"vfs": {"count": 8}}
IB: dict[str, Any] = {"linkType": "infiniband"}
WHEREABOUTS: dict[str, Any] = {"kubernetes": {"ipam": "whereabouts"}}


def compared(name: str, plan: Plan) -> ComparedStack:
    return compare_stack(load_stack(name), plan)


def figures_of(name: str, plan: Plan) -> Figures:
    figures = compared(name, plan).figures
    assert figures is not None
    return figures


def advised(plan: Plan) -> Recommendation | None:
    return recommend([compared(name, plan) for name in MODULES], plan)


@pytest.mark.parametrize("name", MODULES)
def test_every_stack_has_figures_for_its_site(name: str) -> None:
    candidate = compared(name, planned(name, alike(2, 2), 2))
    assert candidate.refusals == ()
    assert candidate.figures is not None
    assert candidate.maturity_reason


PODS = {
    "VFs are the limit": ("native", {"addressing": SHARED, **VFS}, 8),
    "addresses are the limit": ("native", {"addressing": SHARED | {"podAddresses": 3}, **VFS}, 3),
    "shared ports have addresses": ("native", {"addressing": ROUTED}, 28),
    "shared ports of the agent": ("native", {"addressing": SHARED | {"podAddresses": 4095}}, 256),
    "shared ports of the device plugin": (
        "network-operator-macvlan",
        {"addressing": SHARED | {"podAddresses": 255}},
        63,
    ),
    "the port itself": ("native", {"addressing": DIRECT}, 1),
    "whereabouts knows no nodes": (
        "network-operator-sriov",
        {"addressing": FLAT | {"podAddresses": 3}, **VFS, **WHEREABOUTS},
        8,
    ),
    "spiderpool on one subnet": ("spiderpool", {"addressing": FLAT | {"podAddresses": 3}, **VFS}, 8),
    "spiderpool with a subnet a node": ("spiderpool", {"addressing": ROUTED | {"podAddresses": 3}, **VFS}, 3),
    "hosts": ("bare-metal", {"addressing": DIRECT}, None),
}


@pytest.mark.parametrize(("name", "spec", "pods"), PODS.values(), ids=PODS)
def test_pods_of_a_node_follow_from_the_plan(name: str, spec: dict[str, Any], pods: int | None) -> None:
    assert figures_of(name, fabric(**spec)).pods_per_node == pods


def test_the_agent_offers_as_many_pods_as_the_comparison_says() -> None:
    assert MAX_SHARED_PODS == MAX_DEVICES


WRITES = {
    "native": ({"addressing": SHARED, **VFS}, "0"),
    "network-operator-sriov": ({"addressing": SHARED, **VFS}, "10"),
    "sriov-operator": ({"addressing": FLAT, **VFS, **WHEREABOUTS}, "50"),
    "spiderpool": ({"addressing": FLAT, **VFS}, "18+"),
    "dranet": ({"addressing": DIRECT}, "4+"),
    "aws-efa": ({"addressing": NONE}, "-"),
}


@pytest.mark.parametrize(("name", "site"), WRITES.items(), ids=WRITES)
def test_writes_for_a_pod_of_eight_rails(name: str, site: tuple[dict[str, Any], str]) -> None:
    spec, writes = site
    assert figures_of(name, fabric(rails=8, **spec)).writes == writes


def test_kubernetes_follows_from_the_releases_of_the_charts() -> None:
    assert figures_of("network-operator-sriov", fabric(addressing=SHARED, **VFS)).kubernetes == "1.31-1.35"
    shared = fabric(addressing=SHARED, rdma={"namespaceMode": "shared"}, **VFS)
    assert figures_of("dra-sriov", shared).kubernetes == "1.34-1.35"
    assert figures_of("native", fabric(addressing=SHARED)).kubernetes == "1.29+"


@pytest.mark.parametrize("name", MODULES)
def test_a_version_of_kubernetes_is_among_the_needs_too(name: str) -> None:
    stack = load_stack(name)
    if stack.traits.kubernetes and not stack.platform_operators:
        assert any(f"Kubernetes {stack.traits.kubernetes}" in need for need in stack.needs)


def test_only_stacks_that_the_lab_can_run_are_called_run() -> None:
    assert {name for name in MODULES if load_stack(name).traits.ran} <= {STACK, *STACKS}


SEVERAL = {
    "network-operator-sriov": ({"addressing": DIRECT, **IB}, ["stack-link-type", "stack-needs-vfs", "stack-scheme"]),
    "network-operator-macvlan": (
        {"addressing": NONE, "pods": {"mode": "move"}, **IB},
        ["stack-link-type", "stack-rdma-mode", "stack-scheme"],
    ),
    "network-operator-ipoib": (
        {"addressing": ROUTED, "pods": {"mode": "move"}},
        ["stack-link-type", "stack-rdma-mode", "stack-scheme"],
    ),
    "network-operator-ib-sriov": ({"addressing": ROUTED}, ["stack-link-type", "stack-needs-vfs", "stack-scheme"]),
    "network-operator-hostdevice": ({"addressing": FLAT, **IB}, ["stack-scheme", "stack-link-type"]),
    "sriov-operator": (
        {"nodes": 61, "addressing": ROUTED, **WHEREABOUTS},
        ["stack-needs-vfs", "whereabouts-scheme", "whereabouts-nodes"],
    ),
}


@pytest.mark.parametrize(("name", "site"), SEVERAL.items(), ids=SEVERAL)
def test_all_reasons_against_a_stack_are_given_at_once(name: str, site: tuple[dict[str, Any], list[str]]) -> None:
    spec, codes = site
    refusals = compared(name, fabric(**spec)).refusals
    assert [refusal.rpartition("[")[2].rstrip("]") for refusal in refusals] == codes


def test_what_the_lab_ran_is_recommended_with_what_speaks_against_it() -> None:
    advice = advised(fabric(rails=8, addressing=SHARED, **VFS))
    assert advice is not None
    assert advice.name == "native"
    assert "a node has room for 8 pods with all rails" in advice.reasons
    assert "a starting pod costs the API server 0 writes, with other stacks 10 or more" in advice.reasons
    assert advice.cautions[0] == "new: Trackbed's first release"
    assert dict(advice.alternatives)["network-operator-sriov"] == "if others must rely on it already: NVIDIA's product"
    assert dict(advice.alternatives)["openshift"] == "for OpenShift"


def test_what_ran_and_needs_least_is_recommended_where_the_agent_does_not_fit() -> None:
    names = {"resource": "nvidia.com/rail{rail}"}
    advice = advised(fabric(rails=8, addressing=DIRECT, names=names))
    assert advice is not None
    assert advice.name == "dranet"
    assert any(reason.startswith("it was run: ") for reason in advice.reasons)
    assert advice.alternatives[0][0] == "network-operator-hostdevice"


def test_it_is_said_of_a_recommended_stack_that_none_of_its_pods_ran() -> None:
    names = {"resource": "nvidia.com/rail{rail}"}
    advice = advised(fabric(rails=8, addressing=NONE, names=names, **IB, **VFS))
    assert advice is not None
    assert advice.name == "network-operator-ib-sriov"
    assert "no pod of it ran in Trackbed's tests as this plan wants it" in advice.cautions


@pytest.mark.parametrize(
    ("name", "options", "evidence"),
    [
        ("spiderpool", {"addressing": SHARED, **VFS}, "ran"),
        ("spiderpool", {"addressing": SHARED}, "accepted"),
        ("network-operator-macvlan", {"addressing": SHARED}, "ran"),
        ("native", {"addressing": SHARED, **VFS}, "ran"),
        ("native", {"addressing": SHARED, **IB, **VFS}, "accepted"),
    ],
)
def test_pods_that_ran_otherwise_than_the_plan_wants_are_no_evidence(
    name: str, options: dict[str, Any], evidence: str
) -> None:
    candidate = compared(name, fabric(**options))
    assert candidate.evidence == evidence
    assert load_stack(name).traits.ran in candidate.evidence_detail


def test_what_pods_mode_asks_for_comes_first() -> None:
    names = {"resource": "nvidia.com/rail{rail}"}
    advice = advised(fabric(addressing=SHARED, **VFS, names=names, pods={"mode": "sriov"}))
    assert advice is not None
    assert advice.reasons[0].startswith("pods get what pods.mode sriov asks for, a VF of their own")


def test_a_stack_for_certain_sites_is_never_recommended() -> None:
    advice = advised(fabric(**SITES["aws-efa"]))
    assert advice is None or advice.name not in {"aws-efa", "gke", "oci", "bare-metal"}
