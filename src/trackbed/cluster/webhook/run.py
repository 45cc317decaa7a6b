"""The webhook as a program: reads the cluster, creates its certificate, serves reviews, registers with the API server.

It registers last, so that it can respond to the first review. On SIGTERM and SIGINT it accepts no new connections, and
completes the current reviews. It does not unregister: while no webhook runs, pods that request rails must not start
without rails.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.daemon.health import serve_health
from trackbed.cluster.daemon.http_server import ListenAddress, serve_application
from trackbed.cluster.daemon.tasks import run_until_first_ends, run_until_signal
from trackbed.cluster.webhook.certificate_store import ensure_certificates, publish_configurations
from trackbed.cluster.webhook.certificates import read_expiry
from trackbed.cluster.webhook.cluster_watch import ClusterWatch
from trackbed.cluster.webhook.configuration import WebhookEndpoint
from trackbed.cluster.webhook.metrics import CERTIFICATE_EXPIRY
from trackbed.cluster.webhook.server import (
    CertificateError,
    build_application,
    create_tls_context,
    explain_unready,
    load_certificate,
    tune_garbage_collector,
)

RENEWAL_SECONDS = 600.0
"""Interval between checks of the webhook's own certificate and of drift in the webhook configurations.

It is shorter than `certificates.SIGNING_DELAY`, so that every replica publishes a new authority before it signs."""
FILE_POLL_SECONDS = 10.0
"""Interval between reads of cert-manager's files; cert-manager renews certificates days before they expire."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """Settings of the webhook program."""

    address: ListenAddress
    endpoint: WebhookEndpoint
    certificates: Path | None = None
    """Folder with tls.crt and tls.key of cert-manager; None if the webhook creates its own certificate."""
    client_authorities: Path | None = None
    """PEM file with the authorities of clients that may ask for reviews; None if every client may."""
    metrics: ListenAddress | None = None
    """Listen address of metrics and health checks; None for neither."""

    @property
    def names(self) -> tuple[str, ...]:
        """The DNS names and IP addresses that the certificate must be valid for."""
        host = urlsplit(self.endpoint.url).hostname if self.endpoint.url else None
        return (host,) if host else self.endpoint.names


async def serve(client: DynamicClient, settings: WebhookSettings, on_ready: Callable[[int], None]) -> None:
    """Serve reviews until SIGTERM or SIGINT; `on_ready` is called with the port once the webhook is registered.

    Raises CertificateError, ListenError, and KubeError if the cluster cannot be read or written at the start.
    """
    async with client:
        log.debug("API server %s", await client.read_version())  # fails early if the cluster is unreachable
        watch = ClusterWatch(client.client)
        async with serve_health(settings.metrics, partial(explain_unready, watch)):
            await run_until_signal(
                run_until_first_ends(watch.follow(), _serve_reviews(watch, client, settings, on_ready))
            )


async def _serve_reviews(
    watch: ClusterWatch, client: DynamicClient, settings: WebhookSettings, on_ready: Callable[[int], None]
) -> None:
    """Read the cluster, serve reviews, register, and renew the certificate until cancelled."""
    await watch.wait_until_read()
    tune_garbage_collector()
    certificate = _ServerCertificate(client, settings)
    await certificate.renew()
    app = build_application(watch, needs_certificate=settings.client_authorities is not None)
    async with serve_application(app, settings.address, certificate.tls) as port:
        await publish_configurations(client, settings.endpoint, certificate.bundle)
        on_ready(port)
        await certificate.renew_repeatedly()


class _ServerCertificate:
    """The server's certificate. `bundle` is the CA bundle to publish; None if cert-manager publishes it."""

    def __init__(self, client: DynamicClient, settings: WebhookSettings) -> None:
        self._client, self._settings = client, settings
        self._loaded = b""
        self.bundle: bytes | None = None
        self.tls = create_tls_context(settings.client_authorities)

    async def renew(self) -> bool:
        """Create, renew or read the certificate, and load it if it is new; return whether the CA bundle has changed."""
        old_bundle = self.bundle
        folder = self._settings.certificates
        if folder is None:
            certificates = await ensure_certificates(
                self._client, self._settings.endpoint.namespace, self._settings.names
            )
            self.bundle, pem = certificates.bundle, certificates.certificate + certificates.key
        else:
            pem = _read_certificate_files(folder)
        if pem != self._loaded:
            load_certificate(self.tls, pem)
            self._loaded = pem
            CERTIFICATE_EXPIRY.set(read_expiry(pem).timestamp())
        return old_bundle != self.bundle

    async def renew_repeatedly(self) -> None:
        """Renew the certificate at intervals until cancelled; if a renewal fails, keep the current certificate."""
        seconds = RENEWAL_SECONDS if self._settings.certificates is None else FILE_POLL_SECONDS
        while True:
            await asyncio.sleep(seconds)
            try:
                if await self.renew() or self._settings.certificates is None:
                    await publish_configurations(self._client, self._settings.endpoint, self.bundle)
            except (KubeError, CertificateError) as error:
                log.warning("the current certificate is kept: %s", error)


def _read_certificate_files(folder: Path) -> bytes:
    """Return cert-manager's certificate and key as PEM. Raises CertificateError."""
    try:
        return b"".join((folder / name).read_bytes() for name in ("tls.crt", "tls.key"))
    except OSError as error:
        raise CertificateError(f"cannot read {error.filename}: {error.strerror}") from error
