"""A namespace that asks for rails is labelled; one that asks for what there is not is told when it does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.webhook.requests import request
from tests.cluster.webhook.values import fabric
from trackbed.cluster.stacks.native.choice import ANNOTATION
from trackbed.cluster.webhook.cluster_state import ClusterState
from trackbed.cluster.webhook.namespaces import decide
from trackbed.cluster.webhook.rail_requests import FABRIC, SPIDERPOOL, SPIDERPOOL_NETWORK

KNOWN = ClusterState({"train": fabric("train", "spiderpool", 4)})
LABELS = {"path": "/metadata/labels", "op": "add", "value": {ANNOTATION: "default"}}


def namespace(annotations: dict[str, str] | None, labels: dict[str, str] | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "ml"}
    metadata |= {} if annotations is None else {"annotations": annotations}
    return {"metadata": metadata | ({} if labels is None else {"labels": labels})}


LABELLED = {
    "rails": ({ANNOTATION: "2"}, True),
    "no rails, which pods may change": ({ANNOTATION: "none"}, True),
    "Spiderpool's group": ({SPIDERPOOL: "any"}, True),
    "Spiderpool's group for underlays": ({SPIDERPOOL_NETWORK: "train"}, True),
    "Spiderpool's group of others": ({SPIDERPOOL_NETWORK: "storage"}, False),
    "a Fabric alone": ({FABRIC: "train"}, False),
    "nothing": ({}, False),
}


@pytest.mark.parametrize(("annotations", "labelled"), LABELLED.values(), ids=LABELLED)
def test_who_asks_is_labelled(annotations: dict[str, str], labelled: bool) -> None:
    assert decide(request(namespace(annotations)), KNOWN).patch == ((LABELS,) if labelled else ())


def test_other_labels_stay_and_ours_is_put_once() -> None:
    body = namespace({ANNOTATION: "2"}, {"team": "a"})
    patch = {"op": "add", "path": "/metadata/labels/trackbed.dev~1rails", "value": "default"}
    assert decide(request(body), KNOWN).patch == (patch,)
    body["metadata"]["labels"][ANNOTATION] = "default"
    assert decide(request(body), KNOWN).patch == ()


def test_a_wrong_wish_is_refused_when_it_is_made_and_never_again() -> None:
    wrong = namespace({ANNOTATION: "9"})
    assert (decide(request(wrong), KNOWN).refusal or "").startswith(f'annotation {ANNOTATION} is "9"; write all')
    assert (decide(request(wrong, namespace({ANNOTATION: "1"})), KNOWN).refusal or "") != ""
    assert decide(request(namespace({ANNOTATION: "9"}, {"new": "label"}), wrong), KNOWN).refusal is None


def test_a_namespace_may_come_before_its_fabric() -> None:
    assert decide(request(namespace({ANNOTATION: "9"})), ClusterState()).refusal is None
