"""HTTPS on loopback: what is answered to whom, and certificates that change under open connections."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.client_certificates import sign_client
from tests.cluster.webhook.live import Fixed, Webhook
from tests.cluster.webhook.values import fabric, pod
from trackbed.cluster.api.errors import UnreachableError
from trackbed.cluster.daemon.connections import LARGE_BYTES
from trackbed.cluster.webhook import server
from trackbed.cluster.webhook.certificates import renew_certificates
from trackbed.cluster.webhook.cluster_state import ClusterState, Namespace, PlannedFabric
from trackbed.cluster.webhook.server import BODY_BYTES, CertificateError, create_tls_context, load_certificate

KNOWN = ClusterState({"train": fabric("train", "spiderpool", 4)}, namespaces={"default": Namespace()})


@pytest.fixture
def source() -> Fixed:
    return Fixed(state=KNOWN)


@pytest.fixture
def webhook(source: Fixed) -> Iterator[Webhook]:
    served = Webhook(source)
    yield served
    served.stop()


def connected(webhook: Webhook, **options: Any) -> http.client.HTTPSConnection:
    trust = ssl.create_default_context(cadata=webhook.held.bundle.decode())
    for name, value in options.items():
        setattr(trust, name, value)
    return http.client.HTTPSConnection("127.0.0.1", webhook.port, timeout=20, context=trust)


def asked(webhook: Webhook, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    connection = connected(webhook)
    try:
        connection.request("GET" if body is None else "POST", path, body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def review(body: dict[str, Any], uid: str = "u-1", **fields: Any) -> bytes:
    request = {"uid": uid, "operation": "CREATE", "namespace": "default", "object": body, **fields}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def test_a_review_is_answered_with_a_patch_a_warning_and_an_audit_annotation(webhook: Webhook) -> None:
    status, body = asked(webhook, "/pods?timeout=3s", review(pod(annotations={"trackbed.dev/rails": "1"})))
    answer = json.loads(body)
    assert (status, answer["apiVersion"], answer["kind"]) == (200, "admission.k8s.io/v1", "AdmissionReview")
    response = answer["response"]
    assert (response["uid"], response["allowed"], response["patchType"]) == ("u-1", True, "JSONPatch")
    paths = [operation["path"] for operation in json.loads(base64.b64decode(response["patch"]))]
    assert "/spec/containers/0/resources/limits/spidernet.io~1rail0" in paths
    assert response["warnings"] == [
        "rail 0 of train by spiderpool: added 1 network, 1 resource, 6 variables, IPC_LOCK, /dev/shm, node selector"
    ]
    assert response["auditAnnotations"] == {
        "rails": "rail 0 of train by spiderpool",
        "asked": "pod trackbed.dev/rails: 1",
        "added": "1 network, 1 resource, 6 variables, IPC_LOCK, /dev/shm, node selector",
    }


def test_a_client_that_closes_in_the_midst_of_a_review_is_no_error(
    webhook: Webhook, caplog: pytest.LogCaptureFixture
) -> None:
    connection = connected(webhook)
    connection.putrequest("POST", "/pods")
    connection.putheader("Content-Length", "1000")
    connection.endheaders(b"{")
    asked(webhook, "/pods", review(pod()))  # its answer comes after the other request has been read
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # RST, as by SIGKILL
    connection.close()
    assert asked(webhook, "/pods", review(pod()))[0] == 200
    webhook.stop()
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_dry_run_is_answered_alike(webhook: Webhook) -> None:
    body = pod(annotations={"trackbed.dev/rails": "1"})
    assert asked(webhook, "/pods", review(body, dryRun=True)) == asked(webhook, "/pods", review(body))


def test_the_last_look_refuses_a_pod_that_lost_its_rails(webhook: Webhook) -> None:
    status, body = asked(webhook, "/pods/last", review(pod(annotations={"trackbed.dev/rails": "all"})))
    response = json.loads(body)["response"]
    assert (status, response["allowed"], response["status"]["code"]) == (200, False, 422)
    assert response["status"]["message"] == (
        "the pod asks for rails and lacks network default/rail0 as interface rail0 and 7 more: try again; if it stays "
        "so, another webhook takes it away after ours, or asks for rails too late"
    )


BODIES = {
    "nothing": b"",
    "no JSON": b"{",
    "JSON nested deep": b"[" * 100_000,
    "not UTF-8": b'{"apiVersion": "\xff"}',
    "another version": review({}).replace(b"k8s.io/v1", b"k8s.io/v1beta1"),
    "no request": b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}',
    "a namespace that is a path": review({}, namespace="../nodes/gpu-0"),
    "a namespace with a line break": review({}, namespace="default\n"),
    "a namespace that is too long": review({}, namespace="a" * 64),
    "a list for an object": review({}).replace(b'"object": {}', b'"object": []'),
    "an object nested deep": review({}).replace(
        b'"object": {}', b'"object": {"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    ),
}


@pytest.mark.parametrize("path", ["/pods", "/pods/last", "/namespaces", "/fabrics", "/railnodes"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_what_is_no_review_is_refused(webhook: Webhook, path: str, body: bytes) -> None:
    status, answer = asked(webhook, path, body)
    assert status == 400
    assert b"Traceback" not in answer


SHAPES = {
    "no metadata": {"spec": {"containers": [{"name": "main"}]}},
    "annotations that are a list": {"metadata": {"annotations": []}, "spec": {}},
    "no spec": {"metadata": {"annotations": {"trackbed.dev/rails": "all"}}},
    "containers that are a text": {
        "metadata": {"annotations": {"trackbed.dev/rails": "all"}},
        "spec": {"containers": "main"},
    },
    "annotations that are numbers": {"metadata": {"annotations": {"trackbed.dev/rails": 7}}, "spec": {}},
}


@pytest.mark.parametrize("body", SHAPES.values(), ids=SHAPES)
def test_a_pod_of_another_shape_gets_a_verdict(webhook: Webhook, body: dict[str, Any]) -> None:
    status, answer = asked(webhook, "/pods", review(body))
    assert (status, "allowed" in json.loads(answer)["response"]) == (200, True)


def test_a_body_beyond_the_limit_is_refused_unread(webhook: Webhook) -> None:
    assert asked(webhook, "/pods", b" " * (BODY_BYTES + 1))[0] == 413


class Gate(dict[str, PlannedFabric]):
    """Fabrics, of which `slow` keeps a review busy until the test opens the gate."""

    def __init__(self, **fabrics: PlannedFabric) -> None:
        super().__init__(fabrics)
        self.entered, self.opened, self.count = threading.Event(), threading.Event(), 0

    def __getitem__(self, name: str) -> PlannedFabric:
        if name == "slow":
            self.count += 1
            self.entered.set()
            assert self.opened.wait(60)
        return super().__getitem__(name)


@pytest.fixture
def gate(source: Fixed) -> Iterator[Gate]:
    planned = KNOWN.fabrics["train"]
    fabrics = Gate(train=planned, slow=planned)
    source.state = ClusterState(fabrics, namespaces=KNOWN.namespaces)
    yield fabrics
    fabrics.opened.set()


def requesting(fabric_name: str, **annotations: str) -> bytes:
    """A review of a pod that requests a rail of a Fabric."""
    return review(pod(annotations={"trackbed.dev/rails": "1", "trackbed.dev/fabric": fabric_name, **annotations}))


LARGE = {"note": "x" * LARGE_BYTES}


def test_a_review_of_a_large_pod_keeps_no_other_waiting(
    webhook: Webhook, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REVIEW_SECONDS", 60.0)
    with ThreadPoolExecutor() as clients:
        try:
            large = clients.submit(asked, webhook, "/pods", requesting("slow", **LARGE))
            assert gate.entered.wait(60)
            assert asked(webhook, "/pods", requesting("train"))[0] == 200
        finally:
            gate.opened.set()
        status, body = large.result()
    assert (status, json.loads(body)["response"]["patchType"]) == (200, "JSONPatch")


def test_reviews_of_large_pods_wait_for_each_other_until_their_time_is_over(
    webhook: Webhook, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REVIEW_SECONDS", 0.2)
    answers = [asked(webhook, "/pods", requesting("slow", **LARGE)) for _ in range(3)]
    assert answers == [(504, b"no verdict within 0.2 s\n")] * 3
    gate.opened.set()
    monkeypatch.setattr(server, "REVIEW_SECONDS", 60.0)
    assert asked(webhook, "/pods", requesting("train", **LARGE))[0] == 200
    assert gate.count == 1, "two were dropped while they waited"


def test_nothing_is_reviewed_until_the_cluster_has_been_read(webhook: Webhook, source: Fixed) -> None:
    source.state = None
    assert [asked(webhook, path)[0] for path in ("/healthz", "/readyz")] == [200, 503]
    assert asked(webhook, "/pods", review(pod()))[0] == 503
    source.state = KNOWN
    assert [asked(webhook, path)[0] for path in ("/healthz", "/readyz")] == [200, 200]


UNKNOWN = {
    "nobody answers": (UnreachableError("no answer"), 503),
    "nobody answers in time": (TimeoutError(), 504),
}


@pytest.mark.parametrize(("error", "status"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_namespace_that_cannot_be_read_is_no_namespace_without_a_wish(
    webhook: Webhook, source: Fixed, error: Exception, status: int
) -> None:
    source.error = error
    assert asked(webhook, "/pods", review(pod("elsewhere"), namespace="elsewhere"))[0] == status


def test_tls_before_1_2_is_not_spoken(webhook: Webhook) -> None:
    assert webhook.tls.minimum_version == ssl.TLSVersion.TLSv1_2
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        connection = connected(webhook, minimum_version=version, maximum_version=version)
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b"ok\n"
        connection.close()


def test_a_new_certificate_is_shown_to_new_connections_and_drops_no_old_one(webhook: Webhook) -> None:
    old = connected(webhook)
    old.request("GET", "/healthz")
    old.getresponse().read()
    kept = old.sock
    fresh = renew_certificates(None, ("127.0.0.1",), datetime.now(UTC))
    load_certificate(webhook.tls, fresh.certificate + fresh.key)
    old.request("GET", "/healthz")
    assert (old.getresponse().read(), old.sock is kept) == (b"ok\n", True)
    old.close()
    with pytest.raises(ssl.SSLCertVerificationError):
        asked(webhook, "/healthz")
    webhook.held = fresh
    assert asked(webhook, "/healthz") == (200, b"ok\n")


def test_a_certificate_that_is_none_leaves_the_one_that_is_shown(webhook: Webhook) -> None:
    other = renew_certificates(None, ("127.0.0.1",), datetime.now(UTC))
    for wrong in (b"", b"no PEM", other.certificate, other.certificate + webhook.held.key):
        with pytest.raises(CertificateError, match="certificate and key cannot be used"):
            load_certificate(webhook.tls, wrong)
    assert asked(webhook, "/healthz") == (200, b"ok\n")


def test_connections_are_kept_open(webhook: Webhook) -> None:
    connection = connected(webhook)
    connection.connect()
    kept = connection.sock
    assert kept.selected_alpn_protocol() is None
    for _ in range(3):
        connection.request("POST", "/pods", review(pod()))
        connection.getresponse().read()
        assert connection.sock is kept
    connection.close()


def test_nobody_answers_after_the_end(source: Fixed) -> None:
    served = Webhook(source)
    served.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", served.port), 5)


def test_reviews_are_for_clients_with_a_certificate_where_authorities_are_given(tmp_path: Path) -> None:
    trusted, other = (renew_certificates(None, ("127.0.0.1",), datetime.now(UTC)) for _ in range(2))
    for name, content in {
        "ca": trusted.authority,
        "own": sign_client(trusted),
        "other": sign_client(other),
    }.items():
        (tmp_path / name).write_bytes(content)
    served = Webhook(Fixed(state=KNOWN), authorities=tmp_path / "ca")
    statuses = {}
    for name in ("none", "own", "other"):
        trust = ssl.create_default_context(cadata=served.held.bundle.decode())
        if name != "none":
            trust.load_cert_chain(tmp_path / name)
        for path in ("/healthz", "/pods"):
            connection = http.client.HTTPSConnection("127.0.0.1", served.port, timeout=20, context=trust)
            try:
                connection.request("GET" if path == "/healthz" else "POST", path, review(pod()))
                statuses[name, path] = connection.getresponse().status
            except (ssl.SSLError, ConnectionError):
                statuses[name, path] = 0
            connection.close()
    served.stop()
    assert statuses == {
        ("none", "/healthz"): 200,
        ("none", "/pods"): 403,
        ("own", "/healthz"): 200,
        ("own", "/pods"): 200,
        ("other", "/healthz"): 0,
        ("other", "/pods"): 0,
    }


def test_authorities_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for name in ("empty", "absent"):
        with pytest.raises(CertificateError, match="cannot be used as authorities of clients"):
            create_tls_context(tmp_path / name)
