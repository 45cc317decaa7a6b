"""What pods and namespaces ask for: the same words as stack native's policies take, and Spiderpool's annotations."""

from __future__ import annotations

import pytest

from tests.cluster.stacks.sites import alike, planned
from tests.cluster.stacks.test_native_rails import HOSTILE, TAKEN
from trackbed.cluster.stacks.native.choice import ANNOTATION, describe_valid_values
from trackbed.cluster.webhook.rail_requests import (
    FABRIC,
    SPIDERPOOL,
    SPIDERPOOL_NETWORK,
    PodRailRequest,
    RailRequestError,
    find_request,
    parse_rails,
)

PLAN = planned("native", alike(4, 8), 8)


@pytest.mark.parametrize(("text", "wanted"), TAKEN.items(), ids=TAKEN)
def test_a_value_names_the_rails_that_the_policies_would_give(text: str, wanted: list[int]) -> None:
    assert list(parse_rails(text, PLAN)) == wanted


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_value_that_the_policies_refuse_is_refused_in_their_words(text: str) -> None:
    with pytest.raises(RailRequestError) as caught:
        parse_rails(text, PLAN)
    assert str(caught.value).startswith(f"annotation {ANNOTATION} is ")
    assert str(caught.value).endswith(describe_valid_values(PLAN))
    assert len(str(caught.value)) < 300
    assert str(caught.value).isascii()


ALL = {ANNOTATION: "all"}


def own(text: str, annotation: str, fabric: str, warning: str | None = None) -> PodRailRequest:
    return PodRailRequest(rails=text, by_pod=True, annotation=annotation, fabric=fabric, warning=warning)


def default(text: str, annotation: str, fabric: str) -> PodRailRequest:
    return PodRailRequest(rails=text, by_pod=False, annotation=annotation, fabric=fabric)


ASKED = {
    "nothing": ({}, {}, ("a",), None),
    "the pod": (ALL, {}, ("a",), own("all", ANNOTATION, "a")),
    "the namespace": ({}, ALL, ("a",), default("all", ANNOTATION, "a")),
    "the pod before its namespace": ({ANNOTATION: "2"}, ALL, ("a",), own("2", ANNOTATION, "a")),
    "none needs no Fabric": ({ANNOTATION: "none"}, ALL, (), own("none", ANNOTATION, "")),
    "the pod's Fabric": (ALL | {FABRIC: "b"}, {FABRIC: "a"}, ("a", "b"), own("all", ANNOTATION, "b")),
    "the namespace's Fabric": (ALL, {FABRIC: "b"}, ("a", "b"), own("all", ANNOTATION, "b")),
    "Spiderpool's group is a Fabric": ({SPIDERPOOL: "b"}, {}, ("a", "b"), own("all", SPIDERPOOL, "b")),
    "Spiderpool's group in the namespace": ({}, {SPIDERPOOL: "a"}, ("a",), default("all", SPIDERPOOL, "a")),
    "Spiderpool's group is none of ours": (
        {SPIDERPOOL: "rdma-network"},
        {},
        ("a",),
        own("all", SPIDERPOOL, "a", f'no Fabric is called "rdma-network" as {SPIDERPOOL} says; took a'),
    ),
    "our word before Spiderpool's": ({SPIDERPOOL: "a", ANNOTATION: "1"}, {}, ("a",), own("1", ANNOTATION, "a")),
    "Spiderpool's other group": ({SPIDERPOOL_NETWORK: "storage"}, {}, ("a",), None),
    "Spiderpool's other group is a Fabric": (
        {SPIDERPOOL_NETWORK: "b"},
        {},
        ("a", "b"),
        own("all", SPIDERPOOL_NETWORK, "b"),
    ),
}


@pytest.mark.parametrize(("pod", "namespace", "fabrics", "ask"), ASKED.values(), ids=ASKED)
def test_who_asks_and_for_which_fabric(
    pod: dict[str, str], namespace: dict[str, str], fabrics: tuple[str, ...], ask: PodRailRequest | None
) -> None:
    assert find_request(pod, namespace, fabrics) == ask


REFUSED = {
    "no Fabric": ((), ALL, "rails are asked for, and this cluster has no Fabric, so there are no rails"),
    "several": (
        ("b", "a"),
        ALL,
        f"rails are asked for, and this cluster has a, b; say which in annotation {FABRIC} of pod or namespace",
    ),
    "no such": (("a",), ALL | {FABRIC: "b"}, f'annotation {FABRIC} is "b"; this cluster has a'),
    "hostile": (
        ("a",),
        ALL | {FABRIC: "\r\n"},
        f"annotation {FABRIC} is too long or no plain text; this cluster has a",
    ),
    "Spiderpool's, several": (
        ("a", "b"),
        {SPIDERPOOL: "x" * 99},
        f"rails are asked for, and this cluster has a, b; say which in annotation {FABRIC} of pod or namespace",
    ),
}


@pytest.mark.parametrize(("fabrics", "pod", "message"), REFUSED.values(), ids=REFUSED)
def test_a_fabric_that_is_not_told_or_not_there_is_refused(
    fabrics: tuple[str, ...], pod: dict[str, str], message: str
) -> None:
    with pytest.raises(RailRequestError) as caught:
        find_request(pod, {}, fabrics)
    assert str(caught.value) == message
