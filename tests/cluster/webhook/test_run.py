"""The webhook as a program, in this process: certificates that change while it runs, and its end."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient

from tests.cluster.webhook.live import make_namespace
from trackbed.cluster.api.dynamic import connect
from trackbed.cluster.daemon.http_server import ListenAddress
from trackbed.cluster.webhook import run as program
from trackbed.cluster.webhook.certificate_store import SECRET
from trackbed.cluster.webhook.certificates import CertificateSet, renew_certificates
from trackbed.cluster.webhook.configuration import WebhookEndpoint
from trackbed.cluster.webhook.run import WebhookSettings, serve

API = "admissionregistration.k8s.io/v1"
KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
SPACE = "runs-the-webhook"
SECONDS = 30.0


@pytest.fixture
def space(client: BlockingClient) -> Iterator[BlockingClient]:
    """A namespace for the Secret; neither it nor our configurations are left."""
    make_namespace(client, SPACE)
    yield client
    client.delete({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": SPACE}})
    for kind in KINDS:
        client.delete({"apiVersion": API, "kind": kind, "metadata": {"name": "trackbed"}})


def write(folder: Path) -> str:
    """A certificate of others in a folder; as PEM."""
    held: CertificateSet = renew_certificates(None, ("127.0.0.1",), datetime.now(UTC))
    (folder / "tls.key").write_bytes(held.key)
    (folder / "tls.crt").write_bytes(held.certificate)
    return held.certificate.decode()


def while_it_runs(api_server: Path, settings: WebhookSettings, check: Callable[[int], None]) -> None:
    """Run the webhook, check something of the port it serves, and have it end by a signal."""
    checks: list[asyncio.Task[None]] = []

    def ready(port: int) -> None:
        checks.append(asyncio.create_task(asyncio.to_thread(check, port)))
        checks[0].add_done_callback(lambda _: os.kill(os.getpid(), signal.SIGTERM))

    async def whole() -> None:
        async with asyncio.timeout(SECONDS):
            await serve(connect(str(api_server)), settings, ready)
        await checks[0]

    asyncio.run(whole())


@pytest.mark.usefixtures("space")
def test_a_certificate_that_is_replaced_is_shown_and_a_broken_one_is_not(
    api_server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "FILE_POLL_SECONDS", 0.01)
    first = write(tmp_path)

    def check(port: int) -> None:
        assert ssl.get_server_certificate(("127.0.0.1", port)) == first
        (tmp_path / "tls.key").write_text("broken")
        for _ in range(20):
            assert ssl.get_server_certificate(("127.0.0.1", port)) == first
        second = write(tmp_path)
        assert any(ssl.get_server_certificate(("127.0.0.1", port)) == second for _ in range(2000))

    while_it_runs(
        api_server,
        WebhookSettings(ListenAddress("127.0.0.1", 0), WebhookEndpoint(SPACE, url="https://127.0.0.1:1"), tmp_path),
        check,
    )


def test_configurations_that_somebody_deletes_are_written_again(
    api_server: Path, space: BlockingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "RENEWAL_SECONDS", 0.01)

    def check(_: int) -> None:
        configuration = {"apiVersion": API, "kind": KINDS[0], "metadata": {"name": "trackbed"}}
        space.delete(configuration)
        assert any(space.find(API, KINDS[0], "trackbed") for _ in range(2000))

    while_it_runs(
        api_server,
        WebhookSettings(ListenAddress("127.0.0.1", 0), WebhookEndpoint(SPACE, url="https://127.0.0.1:1")),
        check,
    )


def test_it_shows_what_its_secret_holds(api_server: Path, space: BlockingClient) -> None:
    def check(port: int) -> None:
        secret = space.get("v1", "Secret", SECRET, SPACE)
        shown = ssl.get_server_certificate(("127.0.0.1", port))
        assert base64.b64decode(secret["data"]["tls.crt"]).decode() == shown

    while_it_runs(api_server, WebhookSettings(ListenAddress("127.0.0.1", 0), WebhookEndpoint(SPACE)), check)
