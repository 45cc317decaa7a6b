"""The webhook as a program: reads the cluster, renews its certificate, serves, and registers with the API server.

It registers last, so that no review arrives before it can be answered. It ends on SIGTERM and SIGINT: no new
connections, reviews under way are completed. The webhook configurations are kept, so that pods that request rails do
not start without them while no webhook runs.
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
from trackbed.cluster.daemon.listening import ListenAddress
from trackbed.cluster.daemon.observed import serve_health
from trackbed.cluster.daemon.serving import run_until_first_ends, run_until_signal
from trackbed.cluster.webhook.certificate_store import ensure_certificates, publish
from trackbed.cluster.webhook.certificates import read_expiry
from trackbed.cluster.webhook.cluster_watch import ClusterWatch
from trackbed.cluster.webhook.configuration import WebhookEndpoint
from trackbed.cluster.webhook.metrics import CERTIFICATE_EXPIRY
from trackbed.cluster.webhook.server import (
    CertificateError,
    create_tls_context,
    explain_unready,
    load_certificate,
    serve_reviews,
    tune_garbage_collector,
)

OWN_SECONDS = 600.0
"""Interval at which our certificate is renewed if due, and drift of the webhook configurations is reverted.
Well within `certificates.SIGNING_DELAY`, so that every replica publishes a new authority before it signs."""
FILES_SECONDS = 10.0
"""Interval at which certificate files are read again; cert-manager renews them days before they expire."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """Listen address, endpoint for the API server, folder of certificate files, and listen address of the metrics."""

    address: ListenAddress
    endpoint: WebhookEndpoint
    certificates: Path | None = None
    metrics: ListenAddress | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the certificate must contain."""
        host = urlsplit(self.endpoint.url).hostname if self.endpoint.url else None
        return (host,) if host else self.endpoint.names


async def run(client: DynamicClient, settings: WebhookSettings, ready: Callable[[int], None]) -> None:
    """Serve until SIGTERM or SIGINT; `ready` is called with the port once the webhook is registered.

    Raises KubeError where the cluster cannot be read or written at the start, CertificateError and ListenError.
    """
    async with client:
        log.debug("API server %s", await client.read_version())  # fails here where the cluster is unreachable
        watch = ClusterWatch(client.client)
        async with serve_health(settings.metrics, partial(explain_unready, watch)):
            await run_until_signal(run_until_first_ends(watch.follow(), _serve(watch, client, settings, ready)))


async def _serve(
    watch: ClusterWatch, client: DynamicClient, settings: WebhookSettings, ready: Callable[[int], None]
) -> None:
    await watch.wait_until_read()
    tune_garbage_collector()
    certificate = _ServerCertificate(client, settings)
    await certificate.renew()
    async with serve_reviews(watch, certificate.tls, settings.address) as port:
        await publish(client, settings.endpoint, certificate.bundle)
        ready(port)
        await certificate.renew_repeatedly()


class _ServerCertificate:
    """The server's certificate; `bundle` is the authorities to publish, None where cert-manager publishes them."""

    def __init__(self, client: DynamicClient, settings: WebhookSettings) -> None:
        self._client, self._settings = client, settings
        self._loaded = b""
        self.bundle: bytes | None = None
        self.tls = create_tls_context()

    async def renew(self) -> bool:
        """Create, renew or read the certificate, and load it if it is new; return whether the bundle changed."""
        old_bundle = self.bundle
        folder = self._settings.certificates
        if folder is None:
            certificates = await ensure_certificates(
                self._client, self._settings.endpoint.namespace, self._settings.names
            )
            self.bundle, pem = certificates.bundle, certificates.certificate + certificates.key
        else:
            pem = _read_files(folder)
        if pem != self._loaded:
            load_certificate(self.tls, pem)
            self._loaded = pem
            CERTIFICATE_EXPIRY.set(read_expiry(pem).timestamp())
        return old_bundle != self.bundle

    async def renew_repeatedly(self) -> None:
        """Renew for ever; the current certificate is kept where a renewal fails."""
        seconds = OWN_SECONDS if self._settings.certificates is None else FILES_SECONDS
        while True:
            await asyncio.sleep(seconds)
            try:
                if await self.renew() or self._settings.certificates is None:
                    await publish(self._client, self._settings.endpoint, self.bundle)
            except (KubeError, CertificateError) as error:
                log.warning("the certificate stays as it is for now: %s", error)


def _read_files(folder: Path) -> bytes:
    try:
        return b"".join((folder / name).read_bytes() for name in ("tls.crt", "tls.key"))
    except OSError as error:
        raise CertificateError(f"cannot read {error.filename}: {error.strerror}") from error
