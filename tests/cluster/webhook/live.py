"""A webhook on loopback, as the API server of the tests calls it; and what it knows."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from trackbed_lab.kubernetes.blocking import BlockingClient

from tests.cluster.webhook.values import pod
from tests.waiting import wait_until
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.response import Object
from trackbed.cluster.daemon.http_server import ListenAddress, serve_application
from trackbed.cluster.webhook.certificate_store import publish_configurations
from trackbed.cluster.webhook.certificates import CertificateSet, renew_certificates
from trackbed.cluster.webhook.cluster_state import ClusterState, Namespace, parse_namespace
from trackbed.cluster.webhook.configuration import WebhookEndpoint
from trackbed.cluster.webhook.server import build_application, create_tls_context, load_certificate

SECONDS = 30.0
"""How long the API server may take to know a webhook; it takes less than one."""


@dataclass
class Fixed:
    """A `server.Source` whose value the test sets; namespaces are asked of the API server."""

    client: BlockingClient | None = None
    state: ClusterState | None = field(default_factory=ClusterState)
    error: Exception | None = None

    async def fetch_namespace(self, name: str) -> Namespace:
        """As `server.Source` has it."""
        if self.error is not None:
            raise self.error
        if self.client is None:
            return Namespace()
        body = await asyncio.to_thread(self.client.find, "v1", "Namespace", name)
        return parse_namespace(body or {})


class Webhook:
    """One that serves in a thread of its own, until `stop`."""

    def __init__(self, source: Fixed, held: CertificateSet | None = None, authorities: Path | None = None) -> None:
        self.held = held or renew_certificates(None, ("127.0.0.1",), datetime.now(UTC))
        self.tls, self._needs_certificate = create_tls_context(authorities), authorities is not None
        load_certificate(self.tls, self.held.certificate + self.held.key)
        self._source, self._loop = source, asyncio.new_event_loop()
        self._ready, self._end = threading.Event(), asyncio.Event()
        self.port, self._stopped = 0, False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(SECONDS)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        address = ListenAddress("127.0.0.1", self.port)
        app = build_application(self._source, needs_certificate=self._needs_certificate)
        async with serve_application(app, address, self.tls) as self.port:
            self._ready.set()
            await self._end.wait()

    @property
    def where(self) -> WebhookEndpoint:
        """How the API server reaches it."""
        return WebhookEndpoint(url=f"https://127.0.0.1:{self.port}")

    def stop(self) -> None:
        """Serve no more; the port answers nobody. Doing it twice is fine."""
        if self._stopped:
            return
        self._stopped = True
        with warnings.catch_warnings():  # TLS may still wait for the API server to say goodbye
            warnings.simplefilter("ignore", ResourceWarning)
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(SECONDS)
            assert not self._thread.is_alive()
            del self._loop, self._thread, self._end
            gc.collect()


@contextmanager
def registered(client: BlockingClient, known: ClusterState) -> Iterator[Webhook]:
    """A webhook that the API server calls; neither is left afterwards."""
    webhook = Webhook(Fixed(client, known))
    try:
        client.run(publish_configurations(client.dynamic, webhook.where, webhook.held.bundle))
        await_called(client)
        yield webhook
    finally:
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
            client.delete(
                {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "trackbed"}}
            )
        webhook.stop()


def await_called(client: BlockingClient) -> None:
    """Wait until the API server sends pods to both of our webhooks."""
    make_namespace(client, "default")
    body = pod(annotations={"trackbed.dev/rails": "wrong"})
    wait_until(lambda: refusal(client, body), "the API server calls the webhooks")


def make_namespace(
    client: BlockingClient, name: str, annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None
) -> None:
    """A namespace and the service account that pods need; without controllers nobody else makes it."""
    metadata = {"name": name, "annotations": annotations or {}, "labels": labels or {}}
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, force=True)
    client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}})


def refusal(client: BlockingClient, body: Object) -> str:
    """Why an object is refused, empty if it is not."""
    try:
        client.create(body, dry_run=True)
    except ApiRefusedError as error:
        return error.message
    return ""
