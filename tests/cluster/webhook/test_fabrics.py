"""A Fabric is let in if it can be planned, beside this very cluster, and renumbers nobody who is in use."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.stacks.sites import HEAD, alike
from tests.cluster.webhook.requests import request
from tests.cluster.webhook.values import fabric
from trackbed.cluster.webhook.cluster_state import ClusterRanges, ClusterState
from trackbed.cluster.webhook.fabrics import RENUMBER, decide
from trackbed.fabric.model.ranges import parse_range

SLOTS = {"gpu-0": 0, "gpu-1": 1, "gpu-3": 2}
"""RailNodes of Fabric train: nodes in use, one of them out of order."""


def document(name: str = "train", annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    """A Fabric object as the API server sends it."""
    whole = {
        "nodes": alike(4, 2),
        "rails": 2,
        "addressing": {"scheme": "shared-subnet", "ipv4": "10.64.0.0/16", "podAddresses": 16},
        "kubernetes": {"stack": "network-operator-macvlan"},
    }
    metadata = {"name": name, "uid": "u", "annotations": annotations or {}}
    return {**HEAD, "metadata": metadata, "spec": {**whole, **spec}, "status": {"phase": "Ready"}}


def refusal(body: dict[str, Any], before: dict[str, Any] | None = None, **known: Any) -> str | None:
    return decide(request(body, before), ClusterState(**known)).refusal


def test_a_sound_fabric_is_let_in() -> None:
    assert decide(request(document()), ClusterState()).refusal is None


def addressed(ipv4: str, **fields: Any) -> dict[str, Any]:
    return {"addressing": {"scheme": "shared-subnet", "ipv4": ipv4, "podAddresses": 16, **fields}}


UNSOUND = {
    "no spec": ({"spec": None}, "spec: "),
    "an unknown field": ({"spec": {**document()["spec"], "rail": 3}}, "spec.rail: "),
    "host bits": (document(**addressed("10.64.0.1/16")), "10.64.0.1/16 has host bits set, write 10.64.0.0/16"),
    "too small": (document(**addressed("10.64.0.0/26")), "of rail 0 has room for"),
    "a hostile name": (document(name="x/../y"), "metadata.name"),
    "a name with a command": (
        document(names={"rdma": "y{rail}\ntouch /x #"}),
        "may have letters, digits, '_', '.' and",
    ),
    "a name with an item": (document(names={"netdev": "{rail[0]}"}), "may use {rail}, {number} and {unit} only"),
    "a name of a gigabyte": (document(names={"leaf": "{rail:>400000000}"}), "may use {rail}, {number} and {unit} only"),
    "a rail called as a command": (document(rails=[{"name": "$(id)"}, {}]), "interface name '$(id)' is not one"),
    "a port called as a command": (document(nodes=[{"hosts": "a", "ports": ["`id`", "b"]}]), "'`id`' is not one"),
    "traffic classes that are one": (document(qos={"dscp": 48, "cnpDscp": 48}), "dscp and cnpDscp are both 48"),
    "an unknown stack": (document(kubernetes={"stack": "nativ"}), "no stack is called 'nativ'"),
    "a stack that cannot": (document(kubernetes={"stack": "dranet"}), "DRANET moves the ports themselves into pods"),
    "names that are twice there": (document(names={"network": "rail"}), "rail"),
    "otherRanges of its own": (document(otherRanges={"pods": ["10.64.0.0/20"]}), "pod range 10.64.0.0/20 overlaps"),
}


@pytest.mark.parametrize(("body", "message"), UNSOUND.values(), ids=UNSOUND)
def test_what_cannot_be_planned_is_refused_with_its_place(body: dict[str, Any], message: str) -> None:
    reason = refusal(document() | body)
    assert reason is not None
    assert message in reason
    assert "Traceback" not in reason


CLUSTER = {
    "services": "service range 10.64.0.0/20 overlaps 10.64.0.0/17 of rail 0; change one of them [overlap]",
    "pods": "pod range 10.64.0.0/20 overlaps 10.64.0.0/17 of rail 0; change one of them [overlap]",
    "nodes": "node range 10.64.0.0/20 overlaps 10.64.0.0/17 of rail 0; change one of them [overlap]",
}


@pytest.mark.parametrize(("field", "message"), CLUSTER.items(), ids=CLUSTER)
def test_what_overlaps_with_this_very_cluster_is_refused(field: str, message: str) -> None:
    reason = refusal(document(), ranges=ClusterRanges(**{field: (parse_range("10.64.0.0/20"),)}))
    assert reason == f"spec.otherRanges.{field}.0: {message}"


def test_a_range_that_the_fabric_names_itself_is_told_of_once() -> None:
    body = document(otherRanges={"services": ["10.64.0.0/20"]})
    reason = refusal(body, ranges=ClusterRanges(services=(parse_range("10.64.0.0/20"),)))
    assert reason is not None
    assert reason.count("overlaps") == 1


def test_what_only_surprises_later_is_a_warning() -> None:
    body = document(addressing={"scheme": "node-subnet", "ipv4": "10.64.0.0/16", "ipv4NodePrefix": 26})
    verdict = decide(request(body), ClusterState(ranges=ClusterRanges(pods=(parse_range("10.64.64.0/20"),))))
    assert (verdict.refusal, len(verdict.warnings)) == (None, 1)
    assert "no planned address does so far" in verdict.warnings[0]


BIGGER = {"nodes": [*alike(4, 2), {"hosts": "new-[0-3]", "ports": alike(1, 2)[0]["ports"]}]}
STAYS = {
    "nothing changed": {},
    "more nodes": BIGGER,
    "nodes in another order": {"nodes": [{"hosts": "gpu-[2-3]"}, {"hosts": "gpu-[0-1]"}]},
    "another MTU": {"mtu": 4200},
    "a rail fewer": {"rails": 1, "nodes": alike(4, 1)},
    "a node fewer": {"nodes": [{"hosts": "gpu-[1-3]"}]},
}
MOVES = {
    "another range": (addressed("10.80.0.0/16"), "gpu-0 rail 0 from 10.64.0.17"),
    "more addresses for pods": (addressed("10.64.0.0/16", podAddresses=32), "gpu-0 rail 0 from"),
    "another scheme": (
        {"addressing": {"scheme": "node-subnet", "ipv4": "10.64.0.0/16", "ipv4NodePrefix": 26}},
        "gpu-0 rail 0 from",
    ),
    "no addresses": ({"addressing": {"scheme": "none"}, "kubernetes": {"stack": "aws-efa"}}, "to none"),
}


@pytest.mark.parametrize("spec", STAYS.values(), ids=STAYS)
def test_what_renumbers_no_node_in_use_is_let_in(spec: dict[str, Any]) -> None:
    assert refusal(document(**spec), document(), slots={"train": SLOTS}) is None


@pytest.mark.parametrize(("spec", "message"), MOVES.values(), ids=MOVES)
def test_what_renumbers_nodes_in_use_is_refused_unless_the_fabric_says_so(spec: dict[str, Any], message: str) -> None:
    reason = refusal(document(**spec), document(), slots={"train": SLOTS})
    assert reason is not None
    assert "this renumbers nodes in use: gpu-0" in reason
    assert message in reason
    assert f"and 2 more nodes; if you mean it, annotate the Fabric {RENUMBER}: yes" in reason
    meant = decide(
        request(document(annotations={RENUMBER: "yes"}, **spec), document()), ClusterState(slots={"train": SLOTS})
    )
    assert (meant.refusal, meant.warnings[-1:]) == (None, (f"annotation {RENUMBER} is on: take it away afterwards",))


def test_a_fabric_that_nobody_uses_may_be_renumbered() -> None:
    assert refusal(document(**addressed("10.80.0.0/16")), document(), slots={"other": SLOTS}) is None


def test_what_was_broken_may_be_mended() -> None:
    assert refusal(document(), document(**addressed("10.64.0.1/16")), slots={"train": SLOTS}) is None


def test_two_fabrics_share_no_network_and_no_resource() -> None:
    other = fabric("other", "network-operator-macvlan", 2)
    reason = refusal(document(), fabrics={"other": other, "train": other})
    assert reason is not None
    assert "Fabric other has network default/rail0 too; write other names.network [fabrics-share-network]" in reason
    assert "Fabric other has resource rdma/rail0 too" in reason
    assert refusal(document(), fabrics={"train": fabric("train", "network-operator-macvlan", 2)}) is None
    unlike = document(names={"network": "train{rail}", "resource": "rdma/train{rail}"})
    assert refusal(unlike, fabrics={"other": other}) is None
