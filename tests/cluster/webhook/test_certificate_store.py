"""Replicas share one authority in a Secret, and write its bundle where the API server reads it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient

from tests.cluster.webhook.live import make_namespace
from trackbed.cluster.api.response import Object
from trackbed.cluster.webhook.certificate_store import (
    FIELD_MANAGER,
    SECRET,
    ensure_certificates,
    publish_configurations,
)
from trackbed.cluster.webhook.configuration import WebhookEndpoint

SPACE = "keeps-certificates"
NAMES = ("trackbed-webhook.keeps-certificates.svc",)
KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
API = "admissionregistration.k8s.io/v1"


@pytest.fixture
def space(client: BlockingClient) -> Iterator[BlockingClient]:
    """A namespace without our Secret, a cluster without our configurations, also afterwards."""
    make_namespace(client, SPACE)
    yield client
    client.delete({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": SPACE}})
    for kind in KINDS:
        client.delete({"apiVersion": API, "kind": kind, "metadata": {"name": "trackbed"}})


def test_many_replicas_at_once_hold_the_same(space: BlockingClient) -> None:
    with ThreadPoolExecutor(6) as pool:
        held = list(pool.map(lambda _: space.run(ensure_certificates(space.dynamic, SPACE, NAMES)), range(6)))
    assert len(set(held)) == 1
    assert space.run(ensure_certificates(space.dynamic, SPACE, NAMES)) == held[0]


def test_a_secret_that_is_none_of_ours_is_made_one(space: BlockingClient) -> None:
    held = space.run(ensure_certificates(space.dynamic, SPACE, NAMES))
    broken = {"ca.crt": base64.b64encode(b"no certificate").decode()}
    secret: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": SPACE}}
    space.apply(secret | {"type": "Opaque", "data": broken}, manager="somebody", force=True)
    again = space.run(ensure_certificates(space.dynamic, SPACE, NAMES))
    assert again.authority != held.authority
    assert space.run(ensure_certificates(space.dynamic, SPACE, NAMES)) == again


def test_many_replicas_that_renew_at_once_hold_the_same(space: BlockingClient) -> None:
    space.run(ensure_certificates(space.dynamic, SPACE, NAMES))
    others = ("other.svc",)
    with ThreadPoolExecutor(6) as pool:
        held = list(pool.map(lambda _: space.run(ensure_certificates(space.dynamic, SPACE, others)), range(6)))
    assert set(held) == {space.run(ensure_certificates(space.dynamic, SPACE, others))}


def webhooks(client: BlockingClient) -> list[dict[str, Any]]:
    return [entry for kind in KINDS for entry in client.get(API, kind, "trackbed")["webhooks"]]


def test_the_configurations_are_valid_and_hold_the_bundle(space: BlockingClient) -> None:
    space.run(publish_configurations(space.dynamic, WebhookEndpoint(SPACE), b"-----BEGIN CERTIFICATE-----\n"))
    hooks = webhooks(space)
    assert {hook["clientConfig"]["service"]["namespace"] for hook in hooks} == {SPACE}
    assert {base64.b64decode(hook["clientConfig"]["caBundle"]) for hook in hooks} == {b"-----BEGIN CERTIFICATE-----\n"}


def test_a_bundle_that_another_writes_stays(space: BlockingClient) -> None:
    space.run(publish_configurations(space.dynamic, WebhookEndpoint(SPACE), None))
    theirs = base64.b64encode(b"theirs").decode()
    for kind in KINDS:
        config = space.get(API, kind, "trackbed")
        for webhook in config["webhooks"]:
            webhook["clientConfig"]["caBundle"] = theirs
        held = {"apiVersion": API, "kind": kind, "metadata": {"name": "trackbed"}, "webhooks": config["webhooks"]}
        space.apply(held, manager="cainjector", force=True)
    space.run(publish_configurations(space.dynamic, WebhookEndpoint(SPACE), None))
    assert {webhook["clientConfig"]["caBundle"] for webhook in webhooks(space)} == {theirs}
    assert FIELD_MANAGER in {
        field["manager"] for field in space.get(API, KINDS[0], "trackbed")["metadata"]["managedFields"]
    }


@pytest.mark.parametrize(
    ("bundle", "annotations"),
    [
        pytest.param(None, {"cert-manager.io/inject-ca-from": f"{SPACE}/trackbed-webhook"}, id="another's"),
        pytest.param(b"ours", {}, id="our own"),
    ],
)
def test_cert_managers_injector_is_asked_for_an_authority_that_is_not_ours(
    space: BlockingClient, bundle: bytes | None, annotations: dict[str, str]
) -> None:
    space.run(publish_configurations(space.dynamic, WebhookEndpoint(SPACE), None))
    space.run(publish_configurations(space.dynamic, WebhookEndpoint(SPACE), bundle))
    annotations_of_kinds = [space.get(API, kind, "trackbed")["metadata"].get("annotations", {}) for kind in KINDS]
    assert annotations_of_kinds == [annotations] * 2
